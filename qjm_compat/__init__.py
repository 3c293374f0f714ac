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

`qjm_compat.aio` has the same for asyncio; `qjm_compat.edits` is the edit log's format.
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
    from metadata.records.journal_record import JournalStorage

    from .batch import Batch
    from .blocking import EditLogInputStream, EditLogOutputStream, QuorumJournalManager
    from .config import AcceptorConfig, JournalConfig
    from .edits.errors import EditLogError
    from .edits.op import EditOp
    from .errors import (
        BadJournalState,
        BadRequest,
        EditsMissing,
        EditsNotCached,
        JournalError,
        JournalNotEmpty,
        JournalNotFormatted,
        JournalOutOfSync,
        JournalUnavailable,
        LoggerTooFarBehind,
        NewerTxid,
        QuorumFailed,
        QuorumTimeout,
        RuleViolated,
        SegmentUnreadable,
        StaleEpoch,
        StreamClosed,
    )
    from .prometheus import JournalMetrics
    from .requests import NamespaceInfo, SegmentState

__all__ = [
    "AcceptorConfig",
    "BadJournalState",
    "BadRequest",
    "Batch",
    "EditLogError",
    "EditLogInputStream",
    "EditLogOutputStream",
    "EditOp",
    "EditsMissing",
    "EditsNotCached",
    "JournalConfig",
    "JournalError",
    "JournalNotEmpty",
    "JournalNotFormatted",
    "JournalOutOfSync",
    "JournalMetrics",
    "JournalStorage",
    "JournalUnavailable",
    "LoggerTooFarBehind",
    "NamespaceInfo",
    "NewerTxid",
    "QuorumFailed",
    "QuorumJournalManager",
    "QuorumTimeout",
    "RuleViolated",
    "SegmentState",
    "SegmentUnreadable",
    "StaleEpoch",
    "StreamClosed",
]

_HOMES = {
    "qjm_compat.batch": ("Batch",),
    "qjm_compat.blocking": (
        "EditLogInputStream",
        "EditLogOutputStream",
        "QuorumJournalManager",
    ),
    "qjm_compat.config": (
        "AcceptorConfig",
        "JournalConfig",
    ),
    "metadata.records.journal_record": ("JournalStorage",),
    "qjm_compat.prometheus": ("JournalMetrics",),
    "qjm_compat.edits.errors": ("EditLogError",),
    "qjm_compat.edits.op": ("EditOp",),
    "qjm_compat.requests": (
        "NamespaceInfo",
        "SegmentState",
    ),
}

require_our_own("metadata", "bookie", "ledgers")
__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, otherwise="qjm_compat.errors")
