"""Replicated, fenced, durable ledgers: the client, journals on top of it, and replay on Spark.

    from bookledger import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

Every public name of the packages `ledgers`, `qjm_compat`, `spark` and `metadata` is one of this package too, and is
imported when it is first used. `ledgers.aio` and `qjm_compat.aio` have the same for asyncio.
"""

from importlib.util import find_spec
from os.path import dirname, realpath
from typing import TYPE_CHECKING

# `ledgers` has the check for all the others, and nobody else can do it for `ledgers` itself.
_ledgers = find_spec("ledgers")
if _ledgers is None or dirname(dirname(realpath(_ledgers.origin or ""))) != dirname(
    dirname(realpath(__file__))
):
    raise ImportError(
        f"{_ledgers and _ledgers.origin} is imported in place of bookledger's own package 'ledgers': "
        "rename it, or start the program in another directory",
        name="ledgers",
    )

from ledgers.public import lazily

if TYPE_CHECKING:
    from ledgers import (
        AdvancedWriteHandle,
        AppendTimeout,
        BookieRef,
        BookieUnavailable,
        ClientClosed,
        ClientConfig,
        ClientForked,
        DigestMismatch,
        DigestType,
        DuplicateEntry,
        Entry,
        EntryTooLarge,
        EntryUnreadable,
        Fragment,
        LedgerClient,
        LedgerClosed,
        LedgerError,
        LedgerExists,
        LedgerFenced,
        LedgerRecord,
        LedgerRecoveryFailed,
        LedgerState,
        MaintainReply,
        MaintainRequest,
        MaintenanceAction,
        MetadataUnavailable,
        NewLedger,
        NoSuchEntry,
        NoSuchLedger,
        NotEnoughAnswers,
        NotEnoughBookies,
        ReadHandle,
        Registration,
        SizeStep,
        Unauthorized,
        UnconfirmedError,
        WouldDeadlock,
        WriteHandle,
    )
    from metadata import BadMetadataUri, MetadataError, MetadataStore, open_store
    from qjm_compat import (
        AcceptorConfig,
        BadJournalState,
        BadRequest,
        Batch,
        EditLogError,
        EditLogInputStream,
        EditLogOutputStream,
        EditOp,
        EditsNotCached,
        JournalConfig,
        JournalError,
        JournalNotEmpty,
        JournalNotFormatted,
        JournalOutOfSync,
        JournalUnavailable,
        LoggerTooFarBehind,
        NamespaceInfo,
        NewerTxid,
        QuorumFailed,
        QuorumJournalManager,
        QuorumTimeout,
        RuleViolated,
        SegmentState,
        SegmentUnreadable,
        StaleEpoch,
        StreamClosed,
    )
    from spark import BadSelection, EditsDataSource, LedgerDataSource, register, session_on

__all__ = [
    "AcceptorConfig",
    "AdvancedWriteHandle",
    "AppendTimeout",
    "BadJournalState",
    "BadMetadataUri",
    "BadRequest",
    "BadSelection",
    "Batch",
    "BookieRef",
    "BookieUnavailable",
    "ClientClosed",
    "ClientConfig",
    "ClientForked",
    "DigestMismatch",
    "DigestType",
    "DuplicateEntry",
    "EditLogError",
    "EditLogInputStream",
    "EditLogOutputStream",
    "EditOp",
    "EditsDataSource",
    "EditsNotCached",
    "Entry",
    "EntryTooLarge",
    "EntryUnreadable",
    "Fragment",
    "JournalConfig",
    "JournalError",
    "JournalNotEmpty",
    "JournalNotFormatted",
    "JournalOutOfSync",
    "JournalUnavailable",
    "LedgerClient",
    "LedgerClosed",
    "LedgerDataSource",
    "LedgerError",
    "LedgerExists",
    "LedgerFenced",
    "LedgerRecord",
    "LedgerRecoveryFailed",
    "LedgerState",
    "LoggerTooFarBehind",
    "MaintainReply",
    "MaintainRequest",
    "MaintenanceAction",
    "MetadataError",
    "MetadataStore",
    "MetadataUnavailable",
    "NamespaceInfo",
    "NewLedger",
    "NewerTxid",
    "NoSuchEntry",
    "NoSuchLedger",
    "NotEnoughAnswers",
    "NotEnoughBookies",
    "QuorumFailed",
    "QuorumJournalManager",
    "QuorumTimeout",
    "ReadHandle",
    "Registration",
    "SizeStep",
    "RuleViolated",
    "SegmentState",
    "SegmentUnreadable",
    "StaleEpoch",
    "StreamClosed",
    "Unauthorized",
    "UnconfirmedError",
    "WouldDeadlock",
    "WriteHandle",
    "open_store",
    "register",
    "session_on",
]

_HOMES = {
    "metadata": (
        "BadMetadataUri",
        "MetadataError",
        "MetadataStore",
        "open_store",
    ),
    "qjm_compat": (
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
    ),
    "spark": (
        "BadSelection",
        "EditsDataSource",
        "LedgerDataSource",
        "register",
        "session_on",
    ),
}

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, otherwise="ledgers", needs={"spark": "pyspark"})
