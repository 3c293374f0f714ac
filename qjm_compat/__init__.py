"""Journals on ledgers: what Hadoop's QuorumJournalManager and JournalNodes promise to a NameNode.

    from qjm_compat import NamespaceInfo, QuorumJournalManager

    with QuorumJournalManager("sqlite:///var/lib/bookledger/metadata.db", "ns1") as journal:
        journal.format(NamespaceInfo(namespace_id=1, cluster_id="CID-1"))
        journal.recover_unfinalized_segments()
        with journal.start_log_segment(1) as out:
            out.write(op)
            out.set_ready_to_flush()
            out.flush()  # on the disks of a quorum when it returns
        journal.finalize_log_segment(1, 1)

`qjm_compat.aio` has the same for asyncio; `qjm_compat.edits` is the edit log's format.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .blocking import EditLogInputStream, EditLogOutputStream, QuorumJournalManager
    from .config import AcceptorConfig, JournalConfig
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
    "EditLogInputStream",
    "EditLogOutputStream",
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
    "blocking": ("EditLogInputStream", "EditLogOutputStream", "QuorumJournalManager"),
    "config": ("AcceptorConfig", "JournalConfig"),
    "requests": ("NamespaceInfo", "SegmentState"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: who only reads edit logs needs no gRPC."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
