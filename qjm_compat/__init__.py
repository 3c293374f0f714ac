"""HDFS edit-log journals on ledgers, with the guarantees of Hadoop's QuorumJournalManager and JournalNodes.

    from qjm_compat import NamespaceInfo, QuorumJournalManager, edits

    with QuorumJournalManager("sqlite:///var/lib/bookledger/metadata.db", "ns1") as journal:
        journal.format(NamespaceInfo(namespace_id=1, cluster_id="CID-1"))
        journal.recover_unfinalized_segments()
        with journal.start_log_segment(1) as out:
            out.write(edits.ops.StartLogSegment(txid=1))
            out.set_ready_to_flush()
            out.flush()  # on the disks of a quorum when it returns
        journal.finalize_log_segment(1, 1)

`qjm_compat.aio` provides the same for asyncio; `qjm_compat.edits` is the edit log's format.
"""

from importlib.util import find_spec
from os.path import dirname, realpath
from typing import TYPE_CHECKING

# `ledgers` has this check for all other packages; for `ledgers` itself it must be done here.
_ledgers = find_spec("ledgers")
if _ledgers is None or dirname(dirname(realpath(_ledgers.origin or ""))) != dirname(
    dirname(realpath(__file__))
):
    raise ImportError(
        f"{_ledgers and _ledgers.origin} is imported in place of bookledger's own package 'ledgers': "
        "rename it, or start the program in another directory",
        name="ledgers",
    )

from ledgers.public import lazily, require_our_own

if TYPE_CHECKING:
    from metadata.records.journal_record import JournalStorage as JournalStorage

    from .batch import Batch as Batch
    from .blocking import (
        EditLogInputStream as EditLogInputStream,
        EditLogOutputStream as EditLogOutputStream,
        QuorumJournalManager as QuorumJournalManager,
    )
    from .config import AcceptorConfig as AcceptorConfig, JournalConfig as JournalConfig
    from .edits.errors import EditLogError as EditLogError
    from .edits.op import EditOp as EditOp
    from .errors import (
        BadJournalState as BadJournalState,
        BadRequest as BadRequest,
        EditsMissing as EditsMissing,
        EditsNotCached as EditsNotCached,
        JournalError as JournalError,
        JournalNotEmpty as JournalNotEmpty,
        JournalNotFormatted as JournalNotFormatted,
        JournalOutOfSync as JournalOutOfSync,
        JournalUnavailable as JournalUnavailable,
        LoggerTooFarBehind as LoggerTooFarBehind,
        NewerTxid as NewerTxid,
        QuorumFailed as QuorumFailed,
        QuorumTimeout as QuorumTimeout,
        RuleViolated as RuleViolated,
        SegmentUnreadable as SegmentUnreadable,
        StaleEpoch as StaleEpoch,
        StreamClosed as StreamClosed,
    )
    from .prometheus import JournalMetrics as JournalMetrics
    from .requests import NamespaceInfo as NamespaceInfo, SegmentState as SegmentState

require_our_own("metadata", "bookie", "ledgers")
__getattr__, __dir__ = lazily(__name__)
