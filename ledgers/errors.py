"""Errors of the ledger client, for applications to act on.

    LedgerError
    ├── NoSuchLedger             there is no ledger of this id (any more)
    ├── LedgerExists             the chosen ledger id is taken
    ├── NoSuchEntry              the entry is not in the ledger, or not confirmed yet
    ├── LedgerClosed             the ledger, or this handle, takes no more entries
    ├── LedgerFenced             another client has begun to recover the ledger
    ├── LedgerIdReused           bookies hold another ledger under this id
    ├── NotEnoughBookies         too few bookies to store or to go on; says why each was not used
    ├── EntryUnreadable          no replica could give the entry; says what each answered
    │   └── DigestMismatch       … and at least one gave bytes that are not what was written
    ├── RecordUnreadable         an entry of a log is damaged, or a newer program wrote it
    ├── NotEnoughAnswers         too few bookies said how far the ledger is confirmed
    ├── LedgerRecoveryFailed     recovery could not decide; the ledger stays in recovery
    ├── AppendTimeout            no ack quorum in time
    ├── Unauthorized             the password does not fit the ledger
    ├── NotAllowed               the client's certificate is of a role that may not do this
    ├── BadEncryptionKey         the key for encrypted entries is missing, or another one
    ├── DuplicateEntry           the entry id was appended before
    ├── EntryTooLarge            over the entry limit; nothing was sent
    ├── WriterFull               too much is unconfirmed for a call that does not wait; nothing was taken in
    ├── BookieUnavailable        a bookie could not be reached (used inside; named in the others)
    │   └── BookieStarting       … for it still reads its log
    ├── NoSuchLog                there is no log of this name (any more)
    ├── LogExists                the name is another log's
    ├── LogFenced                another writer has taken the log over
    ├── LogClosed                this writer of a log takes no more records
    ├── LogTruncated             what is before a position of a log was given up
    ├── LedgerInLog              the ledger is a segment of a log, which alone deletes it
    ├── LogHeld                  the log is under legal hold
    ├── ClientClosed             the client was closed: make another one
    ├── ClientForked             the client is another process's: make one in this process
    ├── WouldDeadlock            a call that waits, made on the very thread it would wait for
    └── MetadataUnavailable      the metadata store does not answer
        └── MetadataWentBack     … or is an older copy of itself, or empty, and waits for an operator

LedgerFenced, LedgerIdReused, LedgerClosed, NotEnoughBookies, AppendTimeout, Unauthorized, LogFenced, LogClosed and
MetadataUnavailable are Unconfirmed: they end a writer. An append that failed with one of them may or may not be in the
ledger; only opening the ledger with recovery settles which. Treat it as a write whose answer was lost.

NotFound, OutOfRange, AlreadyExists, AccessDenied, TakenOver and Unavailable are bases that errors of several packages
have (`bookledger.errors`). `errors` of `ledgers.elections`, `ledgers.logs` and the folders in it have more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from metadata.picklable_errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutOfRange,
    PicklableError,
    TakenOver,
    Unavailable,
)


class LedgerError(PicklableError):
    """Base class of all errors of the ledger client."""


class NoSuchLedger(NotFound, LedgerError):
    """There is no such ledger: it was never created, or it was deleted."""

    def __init__(self, ledger_id: int, why: str = "") -> None:
        super().__init__(f"there is no ledger {ledger_id}{why and ': '}{why}")
        self.ledger_id = ledger_id


class LedgerExists(AlreadyExists, LedgerError):
    """The chosen ledger id is or was taken. Choose another, or let the client choose."""

    def __init__(self, ledger_id: int) -> None:
        super().__init__(
            f"ledger {ledger_id} exists already, or did once; an id is never given twice, choose another"
        )
        self.ledger_id = ledger_id


class NoSuchEntry(OutOfRange, LedgerError):
    """The entry is outside the readable range: read `last_add_confirmed` again, or ask for less."""

    def __init__(self, ledger_id: int, entry_id: int, last_add_confirmed: int) -> None:
        is_any = last_add_confirmed >= 0
        end = f"its last confirmed entry is {last_add_confirmed}" if is_any else "none of it is confirmed"
        super().__init__(f"ledger {ledger_id} has no readable entry {entry_id}; {end}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.last_add_confirmed = last_add_confirmed


class Unconfirmed(LedgerError):
    """Base of errors that end a writer; `first_unconfirmed` is the first unconfirmed entry, or a log's position."""

    first_unconfirmed: int | None = None
    counts = "entry"

    def __str__(self) -> str:
        message = super().__str__()
        if self.first_unconfirmed is None:
            return message
        return f"{message}; {self.counts} {self.first_unconfirmed} is the first that is not confirmed"


class LedgerClosed(Unconfirmed):
    """The ledger or handle is closed. Open the ledger to see where it ends; write to a new one."""

    def __init__(self, ledger_id: int, why: str = "it takes no more entries") -> None:
        super().__init__(f"ledger {ledger_id} is closed: {why}")
        self.ledger_id = ledger_id


class LedgerFenced(TakenOver, Unconfirmed):
    """Another client is recovering the ledger, or has: this writer is the old one and must stop.

    Unconfirmed appends may or may not be in the ledger. If you should still be the writer, open
    the ledger with recovery, read where it ends, and go on in a new one.
    """

    def __init__(self, ledger_id: int, by: str) -> None:
        super().__init__(f"ledger {ledger_id} has been fenced ({by}); another client has taken over")
        self.ledger_id = ledger_id


class LedgerIdReused(Unconfirmed):
    """A bookie holds another ledger under this id, so this one cannot be written: the metadata was rolled back to an
    older copy, and gave the id a second time (rule W8).

    Stop, and have an operator look: `bookledger metadata check`. When what it shows is accepted, a new ledger gets an
    id that no bookie knows.
    """

    def __init__(self, ledger_id: int, bookie: str, why: str) -> None:
        super().__init__(f"ledger {ledger_id} cannot be written: bookie {bookie}: {why}")
        self.ledger_id = ledger_id


class NotEnoughBookies(Unavailable, Unconfirmed):
    """Too few usable bookies. `reasons` names every one that could not be used, and why; `usable` the others.

    Start bookies or free their disks, then create the ledger again; a writer that failed with
    this must open its ledger with recovery first."""

    def __init__(self, needed: str, reasons: Mapping[str, str], usable: Collection[str] = ()) -> None:
        said = {**dict.fromkeys(usable, "usable"), **reasons}
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(said.items()))
        super().__init__(f"not enough bookies for {needed}: {listed or 'none is registered'}")
        self.reasons = dict(reasons)
        self.usable = tuple(usable)


class EntryUnreadable(LedgerError):
    """Every replica was asked and none gave the entry. `answers` says what each said.

    Nothing is lost for certain while a replica is merely unreachable: bring it back and read again. Where all of them
    are lost, `salvage_ledger` reads the others."""

    def __init__(self, ledger_id: int, entry_id: int, answers: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {answer}" for name, answer in sorted(answers.items()))
        super().__init__(f"entry {entry_id} of ledger {ledger_id} cannot be read: {listed}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.answers = dict(answers)


class DigestMismatch(EntryUnreadable):
    """No replica could give the entry, and one gave bytes with a wrong digest.

    The password may be the wrong one, or the copies are damaged. The bytes are never returned."""


class RecordUnreadable(LedgerError):
    """The entry at this position of a log is what was appended, and this program cannot decode it as a record."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"the record at position {position} cannot be decoded: {why}")
        self.position = position
        self.why = why


class NotEnoughAnswers(Unavailable, LedgerError):
    """Too few bookies answered to know how far an open ledger is confirmed. `answers` says why the others did not.

    Nothing was changed. Bring the named bookies back and ask again, or recover the ledger."""

    def __init__(self, ledger_id: int, answers: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {answer}" for name, answer in sorted(answers.items()))
        super().__init__(f"too few bookies told the last confirmed entry of ledger {ledger_id} ({listed})")
        self.ledger_id = ledger_id
        self.answers = dict(answers)


class LedgerRecoveryFailed(LedgerError):
    """Recovery could not decide where the ledger ends; nothing confirmed was changed.

    The ledger stays in recovery, fenced. Bring the named bookies back and open it again. Where they are lost for good,
    `salvage_ledger` reads what there is, and an operator may accept the loss (`assess_loss`). `is_undecided`: too few
    bookies answered to prove the end; else something else kept it from being closed.
    """

    def __init__(self, ledger_id: int, why: str, *, is_undecided: bool = False) -> None:
        super().__init__(f"ledger {ledger_id} could not be recovered: {why}")
        self.ledger_id = ledger_id
        self.is_undecided = is_undecided


class AppendTimeout(Unavailable, Unconfirmed):
    """No ack quorum answered within the time limit; the writer has ended. Recover the ledger to learn the outcome."""

    def __init__(self, ledger_id: int, seconds: float, failures: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(failures.items())) or "no bookie said why"
        super().__init__(f"ledger {ledger_id}: no ack quorum within {seconds:g} s ({listed})")
        self.ledger_id = ledger_id
        self.failures = dict(failures)


class Unauthorized(AccessDenied, Unconfirmed):
    """The password is not the one the ledger was created with, or the ledger was deleted.

    Or a bookie refuses this client whatever its password: `why` says so."""

    def __init__(self, ledger_id: int, *, by_bookie: bool = False, why: str = "") -> None:
        or_deleted = ", or the ledger is deleted" if by_bookie else ""
        told = (
            f"ledger {ledger_id}: {why}"
            if why
            else f"the password does not fit ledger {ledger_id}{or_deleted}"
        )
        super().__init__(told)
        self.ledger_id = ledger_id


class NotAllowed(AccessDenied, LedgerError):
    """The role of the client's certificate may not do this at all; the error names those that may."""


class BadEncryptionKey(AccessDenied, LedgerError):
    """The ledger's entries are encrypted, and the client has no key or a wrong one."""

    def __init__(self, ledger_id: int, why: str) -> None:
        super().__init__(f"the entries of ledger {ledger_id} are encrypted: {why}")
        self.ledger_id = ledger_id
        self.why = why


class DuplicateEntry(AlreadyExists, LedgerError):
    """An entry of this id was appended before. Nothing was sent and the writer goes on."""

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        super().__init__(f"entry {entry_id} of ledger {ledger_id} was appended before")
        self.ledger_id = ledger_id
        self.entry_id = entry_id


class EntryTooLarge(LedgerError):
    """The entry is over the size limit. Nothing was sent and the writer goes on: split it."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"an entry of {size_bytes} bytes is over the limit of {limit_bytes} bytes; split it")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class WriterFull(LedgerError):
    """Too much is unconfirmed to take the entry in. Await `confirmed` of an earlier one, and try again."""

    def __init__(self, of: str, pending_bytes_max: int) -> None:
        super().__init__(
            f"of {of} {pending_bytes_max} bytes are not confirmed, or a bookie is behind: wait until "
            "earlier entries are, then append again"
        )


class BookieUnavailable(Unavailable, LedgerError):
    """The call to a bookie was not made, or was not answered."""

    def __init__(self, bookie: str, why: str) -> None:
        super().__init__(f"bookie {bookie} is unavailable: {why}")
        self.bookie = bookie
        self.why = why


class BookieStarting(BookieUnavailable):
    """The bookie reads its log, and serves in a moment."""


class MetadataUnavailable(Unavailable, Unconfirmed):
    """The metadata store did not answer, or refuses changes. Nothing confirmed is lost; try again when it is back."""


class MetadataWentBack(MetadataUnavailable):
    """The metadata store is an older copy of itself, or lost what it had. Nothing confirmed is lost, and waiting is of
    no use: an operator has to put newer metadata in its place, or to accept this. Then open the ledger or log again."""


class NoSuchLog(NotFound, LedgerError):
    """There is no such log: it was never created, or it was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no log {name!r}")
        self.name = name


class LogExists(AlreadyExists, LedgerError):
    """The name is another log's. Choose another, or delete that one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a log {name!r} already")
        self.name = name


class LogFenced(TakenOver, Unconfirmed):
    """Another writer has taken the log over: this one must stop. Unconfirmed appends may or may not be in the log:
    read it from `first_unconfirmed` on."""

    def __init__(self, name: str, by: str, epoch: int) -> None:
        super().__init__(f"another writer has taken log {name!r} over ({by or 'unnamed'}, epoch {epoch})")
        self.name, self.by, self.epoch = name, by, epoch


class LogClosed(Unconfirmed):
    """This writer of a log was closed, or ended with its client. Take the log over with a new one."""

    def __init__(self, name: str, why: str = "this writer was closed") -> None:
        super().__init__(f"log {name!r} takes no more records: {why}")
        self.name = name


class LogTruncated(LedgerError):
    """The position was given up by a truncation. Read from `first_position` on: that is the oldest that is left."""

    def __init__(self, name: str, position: int, first_position: int) -> None:
        oldest = f"the oldest that is left is {first_position}"
        super().__init__(f"position {position} of log {name!r} was given up; {oldest}")
        self.name, self.position, self.first_position = name, position, first_position


class LedgerInLog(LedgerError):
    """The ledger is a segment of a log. Nothing was deleted: truncate or delete the log."""

    def __init__(self, ledger_id: int, name: str) -> None:
        super().__init__(
            f"ledger {ledger_id} is a segment of log {name!r}, which deletes it when it is truncated or deleted"
        )
        self.ledger_id, self.name = ledger_id, name


class LogHeld(LedgerError):
    """The log is under legal hold. Nothing was given up; end the hold first, if you may."""

    def __init__(self, name: str) -> None:
        super().__init__(f"log {name!r} is under legal hold: it is neither truncated nor deleted")
        self.name = name


class ClientClosed(LedgerError):
    """The client was closed, before or during this call. Make a new client; its ledgers are all there, and appends that
    were not confirmed may or may not be in theirs."""

    def __init__(self) -> None:
        super().__init__("this client is closed")


class ClientForked(LedgerError):
    """The client was made before a `fork()`, in the parent process; this call did nothing.

    Make a client in this process, after the fork, and open ledgers with it. The parent's is not disturbed.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"this client cannot be used here: {why}")


class WouldDeadlock(LedgerError, RuntimeError):
    """A blocking call was made in a callback of an append's future, on the thread it would wait for.

    Nothing was done. There only `append_async` may be called, while it need not wait; hand the rest to a
    thread of your own.
    """

    def __init__(self) -> None:
        super().__init__(
            "this call would wait for the client's own thread, on that thread: callbacks of futures run there; "
            "hand it to another thread"
        )
