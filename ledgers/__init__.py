"""Replicated, fenced, durable ledgers: the client.

    from ledgers import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

`ledgers.aio` has the same for asyncio.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metadata.records.ledger_record import DigestType, LedgerRecord, LedgerState

    from .blocking import AdvancedWriteHandle, LedgerClient, ReadHandle, WriteHandle
    from .config import ClientConfig
    from .entry import Entry
    from .errors import (
        AppendTimeout,
        BookieUnavailable,
        ClientClosed,
        DigestMismatch,
        DuplicateEntry,
        EntryTooLarge,
        EntryUnreadable,
        LedgerClosed,
        LedgerError,
        LedgerExists,
        LedgerFenced,
        LedgerRecoveryFailed,
        MetadataUnavailable,
        NoSuchEntry,
        NoSuchLedger,
        NotEnoughBookies,
        Unauthorized,
        WouldDeadlock,
    )
    from .new_ledger import NewLedger

__all__ = [
    "AdvancedWriteHandle",
    "AppendTimeout",
    "BookieUnavailable",
    "ClientClosed",
    "ClientConfig",
    "DigestMismatch",
    "DigestType",
    "DuplicateEntry",
    "Entry",
    "EntryTooLarge",
    "EntryUnreadable",
    "LedgerClient",
    "LedgerClosed",
    "LedgerError",
    "LedgerExists",
    "LedgerFenced",
    "LedgerRecord",
    "LedgerRecoveryFailed",
    "LedgerState",
    "MetadataUnavailable",
    "NoSuchEntry",
    "NewLedger",
    "NoSuchLedger",
    "NotEnoughBookies",
    "ReadHandle",
    "Unauthorized",
    "WouldDeadlock",
    "WriteHandle",
]

_HOMES = {
    "metadata.records.ledger_record": ("DigestType", "LedgerRecord", "LedgerState"),
    "ledgers.blocking": ("AdvancedWriteHandle", "LedgerClient", "ReadHandle", "WriteHandle"),
    "ledgers.config": ("ClientConfig",),
    "ledgers.entry": ("Entry",),
    "ledgers.new_ledger": ("NewLedger",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: gRPC alone takes longer than `bookledger --help` may."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF.get(name, "ledgers.errors")), name)
    globals()[name] = value
    return value
