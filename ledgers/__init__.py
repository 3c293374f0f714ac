"""Replicated, fenced, durable ledgers: the client.

    from ledgers import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

`ledgers.aio` has the same for asyncio.
"""

from typing import TYPE_CHECKING

from .public import lazily, require_our_own

if TYPE_CHECKING:
    from bookie.wire import Columns
    from bookie.wire.messages import MaintainReply, MaintainRequest, MaintenanceAction, Status
    from metadata.records.ledger_record import (
        BookieRef,
        DigestType,
        Fragment,
        LedgerRecord,
        LedgerState,
        Shape,
    )
    from metadata.records.registration import Registration

    from .blocking import AdvancedWriteHandle, LedgerClient, Log, LogWriter, ReadHandle, Salvage, WriteHandle
    from .config import ClientConfig
    from .creating.new_ledger import NewLedger
    from .entry import Entry
    from .errors import (
        AppendTimeout,
        BadEncryptionKey,
        BookieUnavailable,
        ClientClosed,
        ClientForked,
        DigestMismatch,
        DuplicateEntry,
        EntryTooLarge,
        EntryUnreadable,
        LedgerClosed,
        LedgerError,
        LedgerExists,
        LedgerFenced,
        LedgerIdReused,
        LedgerInLog,
        LedgerRecoveryFailed,
        LogClosed,
        LogExists,
        LogFenced,
        LogHeld,
        LogTruncated,
        MetadataUnavailable,
        NoSuchEntry,
        NoSuchLedger,
        NoSuchLog,
        NotAllowed,
        NotEnoughAnswers,
        NotEnoughBookies,
        RecordUnreadable,
        Unauthorized,
        UnconfirmedError,
        WouldDeadlock,
        WriterFull,
    )
    from .logs.record_batch import NewRecord, Record, RecordBatch
    from .reading.size_steps import SizeStep
    from .recovering.accept_loss import LossAssessment
    from .recovering.held_copies import Gap

__all__ = [
    "AdvancedWriteHandle",
    "AppendTimeout",
    "BookieRef",
    "BookieUnavailable",
    "ClientClosed",
    "ClientConfig",
    "ClientForked",
    "Columns",
    "DigestMismatch",
    "DigestType",
    "BadEncryptionKey",
    "DuplicateEntry",
    "Entry",
    "EntryTooLarge",
    "EntryUnreadable",
    "Fragment",
    "Gap",
    "LedgerClient",
    "LedgerClosed",
    "LedgerError",
    "LedgerExists",
    "LedgerFenced",
    "LedgerIdReused",
    "LedgerInLog",
    "LedgerRecord",
    "LedgerRecoveryFailed",
    "LedgerState",
    "NoSuchLog",
    "LogTruncated",
    "LogHeld",
    "LogFenced",
    "LogExists",
    "Log",
    "LogClosed",
    "LogWriter",
    "LossAssessment",
    "MaintainReply",
    "MaintainRequest",
    "MaintenanceAction",
    "MetadataUnavailable",
    "NewLedger",
    "NewRecord",
    "NoSuchEntry",
    "NoSuchLedger",
    "NotAllowed",
    "NotEnoughAnswers",
    "NotEnoughBookies",
    "ReadHandle",
    "Record",
    "RecordBatch",
    "RecordUnreadable",
    "Registration",
    "Salvage",
    "Shape",
    "SizeStep",
    "Status",
    "Unauthorized",
    "UnconfirmedError",
    "WouldDeadlock",
    "WriterFull",
    "WriteHandle",
]

_HOMES = {
    "bookie.wire": ("Columns",),
    "bookie.wire.messages": (
        "MaintainReply",
        "MaintainRequest",
        "MaintenanceAction",
        "Status",
    ),
    "ledgers.blocking": (
        "AdvancedWriteHandle",
        "LedgerClient",
        "Log",
        "LogWriter",
        "ReadHandle",
        "Salvage",
        "WriteHandle",
    ),
    "ledgers.config": ("ClientConfig",),
    "ledgers.entry": ("Entry",),
    "ledgers.creating.new_ledger": ("NewLedger",),
    "ledgers.logs.record_batch": ("NewRecord", "Record", "RecordBatch"),
    "ledgers.reading.size_steps": ("SizeStep",),
    "ledgers.recovering.accept_loss": ("LossAssessment",),
    "ledgers.recovering.held_copies": ("Gap",),
    "metadata.records.registration": ("Registration",),
    "metadata.records.ledger_record": (
        "BookieRef",
        "DigestType",
        "Fragment",
        "LedgerRecord",
        "LedgerState",
        "Shape",
    ),
}

require_our_own("metadata", "bookie")
__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, otherwise="ledgers.errors")
