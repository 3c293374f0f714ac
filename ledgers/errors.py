"""Errors of the ledger client, for applications to act on.

    LedgerError
    ├── NoSuchLedger             there is no ledger with this id, or it was deleted
    ├── LedgerExists             the chosen ledger id is taken
    ├── NoSuchEntry              the entry is not in the ledger, or not confirmed yet
    ├── LedgerClosed             the ledger, or this handle, takes no more entries
    ├── LedgerFenced             another client has begun to recover the ledger
    ├── LedgerIdReused           bookies hold another ledger under this id
    ├── NotEnoughBookies         too few bookies to create or continue a ledger; states the reason for each bookie
    ├── EntryUnreadable          no replica could return the entry; states each replica's answer
    │   └── DigestMismatch       … and at least one returned bytes other than those written
    ├── RecordUnreadable         an entry of a log is damaged, or a newer program wrote it
    ├── NotEnoughAnswers         too few bookies reported how far the ledger is confirmed
    ├── LedgerRecoveryFailed     recovery could not determine the end of the ledger, which stays in recovery
    ├── AppendTimeout            no ack quorum answered in time
    ├── Unauthorized             the password does not match the ledger
    ├── NotAllowed               the role of the client's certificate does not permit this
    ├── BadEncryptionKey         the key for encrypted entries is missing or wrong
    ├── DuplicateEntry           the entry id was appended before
    ├── EntryTooLarge            the entry exceeds the size limit; nothing was sent
    ├── WriterFull               too many unconfirmed bytes for a call that does not wait; nothing was accepted
    ├── BookieUnavailable        a bookie could not be reached (used internally; other errors list such bookies)
    │   └── BookieStarting       … because it is still reading its log
    ├── NoSuchLog                there is no log with this name, or it was deleted
    ├── LogExists                another log has this name
    ├── LogFenced                another writer has taken the log over
    ├── LogClosed                this writer of a log takes no more records
    ├── LogTruncated             the records before a position of a log were truncated
    ├── LedgerInLog              the ledger is a segment of a log; only the log deletes it
    ├── LogHeld                  the log is under legal hold
    ├── ClientClosed             the client was closed: create another one
    ├── ClientForked             the client belongs to another process: create one in this process
    ├── WouldDeadlock            a blocking call was made on the very thread it would wait for
    └── MetadataUnavailable      the metadata store does not answer
        └── MetadataWentBack     … or went back to an older copy of itself, or is empty, and waits for an operator

LedgerFenced, LedgerIdReused, LedgerClosed, NotEnoughBookies, AppendTimeout, Unauthorized, LogFenced, LogClosed and
MetadataUnavailable are Unconfirmed: they end a writer. An append that failed with one of them may or may not be in the
ledger; only opening the ledger with recovery determines which. Treat it as a write whose answer was lost.

NotFound, OutOfRange, AlreadyExists, AccessDenied, TakenOver and Unavailable are bases that errors of several packages
share (`bookledger.errors`). The `errors` modules of `ledgers.elections`, `ledgers.logs` and its subfolders define more
errors.
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
    """A ledger with the chosen id exists, or existed before. Choose another id, or let the client choose."""

    def __init__(self, ledger_id: int) -> None:
        super().__init__(f"ledger {ledger_id} exists or existed; ids are never reused: choose another")
        self.ledger_id = ledger_id


class NoSuchEntry(OutOfRange, LedgerError):
    """The entry is outside the readable range: read `last_add_confirmed` again, or request a smaller range."""

    def __init__(self, ledger_id: int, entry_id: int, last_add_confirmed: int) -> None:
        is_any = last_add_confirmed >= 0
        end = f"its last confirmed entry is {last_add_confirmed}" if is_any else "no entry is confirmed"
        super().__init__(f"ledger {ledger_id} has no readable entry {entry_id}; {end}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.last_add_confirmed = last_add_confirmed


class Unconfirmed(LedgerError):
    """Base class of the errors that end a writer. `first_unconfirmed` is the first entry of a ledger, or the first
    position of a log, that is not confirmed."""

    first_unconfirmed: int | None = None
    counts = "entry"

    def __str__(self) -> str:
        message = super().__str__()
        if self.first_unconfirmed is None:
            return message
        return f"{message}; the first unconfirmed {self.counts} is {self.first_unconfirmed}"


class LedgerClosed(Unconfirmed):
    """The ledger or handle is closed. Open the ledger to find its end; write to a new ledger."""

    def __init__(self, ledger_id: int, why: str = "it takes no more entries") -> None:
        super().__init__(f"ledger {ledger_id} is closed: {why}")
        self.ledger_id = ledger_id


class LedgerFenced(TakenOver, Unconfirmed):
    """Another client is recovering the ledger, or has recovered it: this writer is the old one and must stop.

    Unconfirmed appends may or may not be in the ledger. If this program should still be the writer, open the ledger
    with recovery, read its last entries, and continue in a new ledger.
    """

    def __init__(self, ledger_id: int, by: str) -> None:
        super().__init__(f"ledger {ledger_id} has been fenced ({by}); another client has taken over")
        self.ledger_id = ledger_id


class LedgerIdReused(Unconfirmed):
    """A bookie holds another ledger under this id, so the new ledger cannot be written: the metadata was rolled back to
    an older copy, and the id was assigned a second time (rule W8).

    Stop, and have an operator run `bookledger metadata check`. Once its findings are accepted, a new ledger gets an id
    that no bookie has a record of.
    """

    def __init__(self, ledger_id: int, bookie: str, why: str) -> None:
        super().__init__(f"ledger {ledger_id} cannot be written to: bookie {bookie}: {why}")
        self.ledger_id = ledger_id


class NotEnoughBookies(Unavailable, Unconfirmed):
    """Too few usable bookies. `reasons` maps every bookie that could not be used to the reason; `usable` lists the
    other bookies.

    Start bookies or free disk space on them, then create the ledger again; if a writer failed with this error, open its
    ledger with recovery first.
    """

    def __init__(self, needed: str, reasons: Mapping[str, str], usable: Collection[str] = ()) -> None:
        said = {**dict.fromkeys(usable, "usable"), **reasons}
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(said.items()))
        super().__init__(f"not enough bookies for {needed}: {listed or 'none is registered'}")
        self.reasons = dict(reasons)
        self.usable = tuple(usable)


class EntryUnreadable(LedgerError):
    """Every replica was asked and none returned the entry. `answers` maps each replica to its answer.

    The entry is not necessarily lost if a replica is merely unreachable: bring that replica back and read again. If all
    replicas are lost, `salvage_ledger` reads the other entries.
    """

    def __init__(self, ledger_id: int, entry_id: int, answers: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {answer}" for name, answer in sorted(answers.items()))
        super().__init__(f"entry {entry_id} of ledger {ledger_id} cannot be read: {listed}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.answers = dict(answers)


class DigestMismatch(EntryUnreadable):
    """No replica could return the entry, and at least one returned bytes with a wrong digest.

    The password may be wrong, or the copies may be damaged. The bytes are never returned.
    """


class RecordUnreadable(LedgerError):
    """The entry at this position of a log is unchanged since it was appended, but this program cannot decode it as a
    record."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"the record at position {position} cannot be decoded: {why}")
        self.position = position
        self.why = why


class NotEnoughAnswers(Unavailable, LedgerError):
    """Too few bookies answered to determine how far an open ledger is confirmed. `answers` maps each bookie that did
    not answer to the reason.

    Nothing was changed. Bring the named bookies back and ask again, or recover the ledger.
    """

    def __init__(self, ledger_id: int, answers: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {answer}" for name, answer in sorted(answers.items()))
        super().__init__(
            f"too few bookies reported the last confirmed entry of ledger {ledger_id} ({listed})"
        )
        self.ledger_id = ledger_id
        self.answers = dict(answers)


class LedgerRecoveryFailed(LedgerError):
    """Recovery could not determine the end of the ledger; nothing confirmed was changed.

    The ledger stays fenced and in recovery. Bring the named bookies back and open it again. If they are lost for good,
    `salvage_ledger` reads the available entries, and an operator may accept the loss (`assess_loss`). `is_undecided`:
    too few bookies answered to prove the end; if it is False, something else prevented the ledger from being closed.
    """

    def __init__(self, ledger_id: int, why: str, *, is_undecided: bool = False) -> None:
        super().__init__(f"ledger {ledger_id} could not be recovered: {why}")
        self.ledger_id = ledger_id
        self.is_undecided = is_undecided


class AppendTimeout(Unavailable, Unconfirmed):
    """No ack quorum answered within the time limit; the writer has ended. Recover the ledger to learn the outcome."""

    def __init__(self, ledger_id: int, seconds: float, failures: Mapping[str, str]) -> None:
        listed = (
            "; ".join(f"{name}: {why}" for name, why in sorted(failures.items())) or "no bookie gave a reason"
        )
        super().__init__(f"ledger {ledger_id}: no ack quorum within {seconds:g} s ({listed})")
        self.ledger_id = ledger_id
        self.failures = dict(failures)


class Unauthorized(AccessDenied, Unconfirmed):
    """The password differs from the one with which the ledger was created, or the ledger was deleted.

    A bookie may also refuse this client regardless of its password; `why` states the reason.
    """

    def __init__(self, ledger_id: int, *, by_bookie: bool = False, why: str = "") -> None:
        or_deleted = ", or the ledger is deleted" if by_bookie else ""
        message = (
            f"ledger {ledger_id}: {why}"
            if why
            else f"the password does not match ledger {ledger_id}{or_deleted}"
        )
        super().__init__(message)
        self.ledger_id = ledger_id


class NotAllowed(AccessDenied, LedgerError):
    """The role of the client's certificate does not permit this; the error lists the roles that do."""


class BadEncryptionKey(AccessDenied, LedgerError):
    """The ledger's entries are encrypted, and the client has no key or a wrong one."""

    def __init__(self, ledger_id: int, why: str) -> None:
        super().__init__(f"the entries of ledger {ledger_id} are encrypted: {why}")
        self.ledger_id = ledger_id
        self.why = why


class DuplicateEntry(AlreadyExists, LedgerError):
    """An entry with this id was appended before. Nothing was sent and the writer remains usable."""

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        super().__init__(f"entry {entry_id} of ledger {ledger_id} was appended before")
        self.ledger_id = ledger_id
        self.entry_id = entry_id


class EntryTooLarge(LedgerError):
    """The entry exceeds the size limit. Nothing was sent and the writer remains usable: split the entry."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"an entry of {size_bytes} bytes is over the limit of {limit_bytes} bytes; split it")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class WriterFull(LedgerError):
    """The writer has too many unconfirmed bytes to accept the entry. Await `confirmed` of an earlier entry, and try
    again."""

    def __init__(self, of: str, pending_bytes_max: int) -> None:
        super().__init__(
            f"{of} has reached {pending_bytes_max} unconfirmed bytes, or a bookie is behind: wait until "
            "earlier entries are confirmed, then append again"
        )


class BookieUnavailable(Unavailable, LedgerError):
    """The call to a bookie was not made, or was not answered."""

    def __init__(self, bookie: str, why: str) -> None:
        super().__init__(f"bookie {bookie} is unavailable: {why}")
        self.bookie = bookie
        self.why = why


class BookieStarting(BookieUnavailable):
    """The bookie is still reading its log, and will be available shortly."""


class MetadataUnavailable(Unavailable, Unconfirmed):
    """The metadata store did not answer or refused a change. Nothing confirmed is lost; try again when it is back."""


class MetadataWentBack(MetadataUnavailable):
    """The metadata store went back to an older copy of itself, or has lost data. Nothing confirmed is lost, but waiting
    does not help: an operator has to restore newer metadata or accept this copy. Then open the ledger or log again."""


class NoSuchLog(NotFound, LedgerError):
    """There is no such log: it was never created, or it was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no log {name!r}")
        self.name = name


class LogExists(AlreadyExists, LedgerError):
    """Another log has this name. Choose another, or delete that log."""

    def __init__(self, name: str) -> None:
        super().__init__(f"log {name!r} already exists")
        self.name = name


class LogFenced(TakenOver, Unconfirmed):
    """Another writer has taken the log over: this writer must stop. Unconfirmed appends may or may not be in the log:
    read it from `first_unconfirmed` on."""

    def __init__(self, name: str, by: str, epoch: int) -> None:
        super().__init__(f"another writer has taken log {name!r} over ({by or 'unnamed'}, epoch {epoch})")
        self.name, self.by, self.epoch = name, by, epoch


class LogClosed(Unconfirmed):
    """This writer of a log was closed, or ended when its client was closed. Take the log over with a new writer."""

    def __init__(self, name: str, why: str = "this writer was closed") -> None:
        super().__init__(f"log {name!r} takes no more records: {why}")
        self.name = name


class LogTruncated(LedgerError):
    """The record at this position was truncated. Read from `first_position` on, the oldest position left."""

    def __init__(self, name: str, position: int, first_position: int) -> None:
        oldest = f"the oldest one left is {first_position}"
        super().__init__(f"position {position} of log {name!r} was truncated; {oldest}")
        self.name, self.position, self.first_position = name, position, first_position


class LedgerInLog(LedgerError):
    """The ledger is a segment of a log. Nothing was deleted: truncate or delete the log."""

    def __init__(self, ledger_id: int, name: str) -> None:
        super().__init__(
            f"ledger {ledger_id} is a segment of log {name!r}, and is deleted when that log is truncated or deleted"
        )
        self.ledger_id, self.name = ledger_id, name


class LogHeld(LedgerError):
    """The log is under legal hold. Nothing was truncated or deleted; end the hold first, if you are permitted to."""

    def __init__(self, name: str) -> None:
        super().__init__(f"log {name!r} is under legal hold, and cannot be truncated or deleted")
        self.name = name


class ClientClosed(LedgerError):
    """The client was closed, before or during this call. Create a new client; all its ledgers still exist, and
    unconfirmed appends may or may not be in them."""

    def __init__(self) -> None:
        super().__init__("this client is closed")


class ClientForked(LedgerError):
    """The client was created before a `fork()`, in the parent process; this call did nothing.

    Create a client in this process, after the fork, and open ledgers with it. The parent's client is not affected.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"this client cannot be used here: {why}")


class WouldDeadlock(LedgerError, RuntimeError):
    """A blocking call was made in a callback of an append's future, on the thread it would wait for.

    Nothing was done. In such a callback, only `append_async` may be called, and only while it need not wait; pass other
    work to a thread of your own.
    """

    def __init__(self) -> None:
        super().__init__(
            "this call would block the client's own thread, which runs callbacks of futures, and never return; "
            "make the call on another thread"
        )
