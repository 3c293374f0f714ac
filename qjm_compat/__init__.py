"""Journals on ledgers: what Hadoop's QuorumJournalManager and JournalNodes promise to a NameNode.

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

from typing import TYPE_CHECKING

from ledgers.public import lazily, require_our_own

if TYPE_CHECKING:
    from .batch import Batch
    from .blocking import EditLogInputStream, EditLogOutputStream, QuorumJournalManager
    from .config import AcceptorConfig, JournalConfig
    from .edits.errors import EditLogError
    from .edits.op import EditOp
    from .errors import (
        BadJournalState,
        BadRequest,
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
    "EditsNotCached",
    "JournalConfig",
    "JournalError",
    "JournalNotEmpty",
    "JournalNotFormatted",
    "JournalOutOfSync",
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
    "qjm_compat.edits.errors": ("EditLogError",),
    "qjm_compat.edits.op": ("EditOp",),
    "qjm_compat.requests": (
        "NamespaceInfo",
        "SegmentState",
    ),
}

require_our_own("metadata", "bookie", "ledgers")
__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, otherwise="qjm_compat.errors")
