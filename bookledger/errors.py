"""All errors that a program can encounter, and the classes that group them for handlers.

    except errors.NotFound:       NoSuchLedger, NoSuchEntry, NoSuchKey, JournalNotFormatted
    except errors.OutOfRange:     NoSuchEntry, NoSuchPosition: beyond the end of a ledger or log
    except errors.AlreadyExists:  LedgerExists, DuplicateEntry, KeyExists, JournalNotEmpty
    except errors.AccessDenied:   Unauthorized, NotAllowed, BadEncryptionKey, StoreRefused
    except errors.TakenOver:      LedgerFenced, StaleEpoch: another writer has taken over, and this one must stop
    except errors.Unavailable:    a peer did not answer, or too few did: a retry may succeed later
    except errors.Unconfirmed:    the error that ended a writer: the failed append may or may not be in the ledger

By origin, they are LedgerErrors (`ledgers.errors` has the tree), JournalErrors (`qjm_compat.errors`) and MetadataErrors
(`metadata.errors`); BadSettings and BadSelection are ValueErrors. Each is imported on first use.
"""

from typing import TYPE_CHECKING

from ledgers.public import lazily

if TYPE_CHECKING:
    from ledgers.cold.errors import (
        NoSuchObject as NoSuchObject,
        NotOffloaded as NotOffloaded,
        ObjectStoreFailed as ObjectStoreFailed,
    )
    from ledgers.elections.errors import LeadershipLost as LeadershipLost
    from ledgers.errors import (
        AppendTimeout as AppendTimeout,
        BadEncryptionKey as BadEncryptionKey,
        BookieStarting as BookieStarting,
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
    from ledgers.logs.errors import (
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
    from metadata.errors import (
        BackupUnusable as BackupUnusable,
        BadMetadataUri as BadMetadataUri,
        BadRecord as BadRecord,
        KeepsChanging as KeepsChanging,
        KeyConflict as KeyConflict,
        KeyExists as KeyExists,
        LeaseLost as LeaseLost,
        MetadataError as MetadataError,
        MetadataRestored as MetadataRestored,
        NoSuchKey as NoSuchKey,
        OutcomeUnknown as OutcomeUnknown,
        StoreFull as StoreFull,
        StoreRefused as StoreRefused,
        StoreTooOld as StoreTooOld,
        StoreUnavailable as StoreUnavailable,
        ValueTooLarge as ValueTooLarge,
        VersionConflict as VersionConflict,
        WatchCompacted as WatchCompacted,
    )
    from metadata.picklable_errors import (
        AccessDenied as AccessDenied,
        AlreadyExists as AlreadyExists,
        NotFound as NotFound,
        OutOfRange as OutOfRange,
        TakenOver as TakenOver,
        Unavailable as Unavailable,
    )
    from metadata.settings.settings_file import BadSettings as BadSettings
    from qjm_compat.edits.errors import EditLogError as EditLogError
    from qjm_compat.errors import (
        BadJournalState as BadJournalState,
        BadRequest as BadRequest,
        EditsMissing as EditsMissing,
        EditsNotCached as EditsNotCached,
        HalfFormatted as HalfFormatted,
        JournalError as JournalError,
        JournalNotEmpty as JournalNotEmpty,
        JournalNotFormatted as JournalNotFormatted,
        JournalOutOfSync as JournalOutOfSync,
        JournalUnavailable as JournalUnavailable,
        LoggerTooFarBehind as LoggerTooFarBehind,
        MetadataAway as MetadataAway,
        NewerTxid as NewerTxid,
        QuorumFailed as QuorumFailed,
        QuorumTimeout as QuorumTimeout,
        RuleViolated as RuleViolated,
        SegmentUnavailable as SegmentUnavailable,
        SegmentUnreadable as SegmentUnreadable,
        StaleEpoch as StaleEpoch,
        StreamClosed as StreamClosed,
    )
    from spark.planning.selection import BadSelection as BadSelection

__getattr__, __dir__ = lazily(__name__)
