"""Replicated, fenced, durable ledgers: the client.

    from ledgers import LedgerClient

    with LedgerClient("sqlite:///var/lib/bookledger/metadata.db") as client:
        with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            entry_id = writer.append(b"on disk at two bookies when this returns")
        for entry in client.open_ledger(writer.ledger_id).read():
            print(entry.entry_id, entry.payload)

`ledgers.aio` has the same API for asyncio.
"""

from typing import TYPE_CHECKING

from .public import lazily, require_our_own

if TYPE_CHECKING:
    from bookie.wire import Columns as Columns
    from bookie.wire.messages import (
        MaintainReply as MaintainReply,
        MaintainRequest as MaintainRequest,
        MaintenanceAction as MaintenanceAction,
        Status as Status,
    )
    from metadata.errors import BadMetadataUri as BadMetadataUri
    from metadata.records.ledger_record import (
        BookieRef as BookieRef,
        DigestType as DigestType,
        Fragment as Fragment,
        LedgerRecord as LedgerRecord,
        LedgerState as LedgerState,
        Shape as Shape,
    )
    from metadata.records.logs.retention import Retention as Retention
    from metadata.records.registration import Registration as Registration

    from .blocking import (
        AdvancedWriteHandle as AdvancedWriteHandle,
        Cursor as Cursor,
        Election as Election,
        LedgerClient as LedgerClient,
        Log as Log,
        LogSet as LogSet,
        LogWriter as LogWriter,
        ReadHandle as ReadHandle,
        Salvage as Salvage,
        Term as Term,
        WriteHandle as WriteHandle,
    )
    from .cold.errors import (
        NoSuchObject as NoSuchObject,
        NotOffloaded as NotOffloaded,
        ObjectStoreFailed as ObjectStoreFailed,
    )
    from .config import ClientConfig as ClientConfig
    from .creating.new_ledger import NewLedger as NewLedger
    from .elections.errors import LeadershipLost as LeadershipLost
    from .entry import Entry as Entry
    from .errors import (
        AppendTimeout as AppendTimeout,
        BadEncryptionKey as BadEncryptionKey,
        BookieUnavailable as BookieUnavailable,
        ClientClosed as ClientClosed,
        ClientForked as ClientForked,
        DigestMismatch as DigestMismatch,
        DuplicateEntry as DuplicateEntry,
        EntryTooLarge as EntryTooLarge,
        EntryUnreadable as EntryUnreadable,
        LedgerClosed as LedgerClosed,
        LedgerError as LedgerError,
        LedgerExists as LedgerExists,
        LedgerFenced as LedgerFenced,
        LedgerIdReused as LedgerIdReused,
        LedgerInLog as LedgerInLog,
        LedgerRecoveryFailed as LedgerRecoveryFailed,
        LogClosed as LogClosed,
        LogExists as LogExists,
        LogFenced as LogFenced,
        LogHeld as LogHeld,
        LogTruncated as LogTruncated,
        MetadataUnavailable as MetadataUnavailable,
        MetadataWentBack as MetadataWentBack,
        NoSuchEntry as NoSuchEntry,
        NoSuchLedger as NoSuchLedger,
        NoSuchLog as NoSuchLog,
        NotAllowed as NotAllowed,
        NotEnoughAnswers as NotEnoughAnswers,
        NotEnoughBookies as NotEnoughBookies,
        RecordUnreadable as RecordUnreadable,
        Unauthorized as Unauthorized,
        Unconfirmed as Unconfirmed,
        WouldDeadlock as WouldDeadlock,
        WriterFull as WriterFull,
    )
    from .logs.cursors.lag import Lag as Lag
    from .logs.errors import (
        CursorClosed as CursorClosed,
        CursorMoved as CursorMoved,
        CursorTakenOver as CursorTakenOver,
        LogIncomplete as LogIncomplete,
        LogOfSet as LogOfSet,
        LogRestored as LogRestored,
        NoSuchCursor as NoSuchCursor,
        NoSuchLogSet as NoSuchLogSet,
        NoSuchPosition as NoSuchPosition,
        OutOfOrderSequence as OutOfOrderSequence,
        ProducerForgotten as ProducerForgotten,
        SequenceTooOld as SequenceTooOld,
    )
    from .logs.record_batch import NewRecord as NewRecord, Record as Record, RecordBatch as RecordBatch
    from .reading.size_steps import SizeStep as SizeStep
    from .recovering.loss_acceptance import LossAssessment as LossAssessment
    from .recovering.held_copies import Gap as Gap

require_our_own("metadata", "bookie")
__getattr__, __dir__ = lazily(__name__)
