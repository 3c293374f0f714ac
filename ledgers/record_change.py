"""Changes a ledger's record by compare-and-swap, and returns the outcome as a value for the state machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from metadata.backup import hold
from metadata.errors import (
    BadMetadataUri,
    KeyConflict,
    MetadataError,
    MetadataRestored,
    StoreRefused,
    StoreUnavailable,
)
from metadata.healing.marks import Marks, mark_if_underreplicated
from metadata.records.coordination.transitions import HeldRecord, R
from metadata.records.ledger_ids import retired_end
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore
from metadata.version import Version

from .errors import (
    LedgerError,
    LedgerRecoveryFailed,
    MetadataUnavailable,
    MetadataWentBack,
    NoSuchLedger,
    NoSuchLog,
)

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Conflict:
    """The compare-and-swap failed; `found` is the current record, or None if the ledger was deleted."""

    found: VersionedRecord | None


async def missing_record_error(ledgers: LedgerStore, ledger_id: int) -> NoSuchLedger | MetadataWentBack:
    """Returns the error for a ledger without a record. The ledger may exist nevertheless, because metadata that is
    older than the bookies' entries may lack newer ledgers (rule W8). Raises MetadataError."""
    return await _unless_held(ledgers.store, f"ledger {ledger_id}") or NoSuchLedger(ledger_id)


async def lost_record_error(ledgers: LedgerStore, ledger_id: int) -> NoSuchLedger | MetadataWentBack:
    """Returns the error for a ledger that existed but has no record now. A deletion would have left a tombstone, or
    would have moved the end of the retired ids beyond this ledger's id. If neither is the case, the store went back to
    an older state, even if no bookie has noticed yet. Raises MetadataError."""
    error = await missing_record_error(ledgers, ledger_id)
    has_no_trace = isinstance(error, NoSuchLedger) and await ledgers.tombstone(ledger_id) is None
    if has_no_trace and ledger_id >= await retired_end(ledgers.store):
        return metadata_went_back_error(f"no longer knows ledger {ledger_id}, which was not deleted")
    return error


async def missing_log_error(store: MetadataStore, name: str) -> NoSuchLog | MetadataWentBack:
    """Returns the error for a log without a record, as `missing_record_error` does for a ledger."""
    return await _unless_held(store, f"log {name!r}") or NoSuchLog(name)


async def _unless_held(store: MetadataStore, what: str) -> MetadataWentBack | None:
    try:
        await hold.check_accepted(store)
    except MetadataRestored as error:
        return MetadataWentBack(f"it is not known whether {what} exists: {error}")
    return None


def check_not_older(what: str, found: int, expected: int) -> None:
    """Raises MetadataWentBack if a record's version is lower than the version known before, which is only possible if
    the store went back to an older state."""
    if found < expected:
        raise metadata_went_back_error(f"has version {found} of {what}, but had version {expected} before")


def metadata_went_back_error(what: str) -> MetadataWentBack:
    return MetadataWentBack(
        f"the metadata store went back to an older copy of itself: it {what}. No ledger is created or "
        "recovered until an operator accepts it: run `bookledger metadata check`"
    )


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Translates the metadata store's errors into the client's errors."""
    try:
        yield
    except StoreUnavailable as error:
        raise unavailable_error(error) from error
    except MetadataRestored as error:
        raise MetadataWentBack(str(error)) from error
    except BadMetadataUri:
        raise
    except MetadataError as error:
        raise LedgerError(str(error)) from error


class ClientRecord(HeldRecord[R]):
    """A record held by a client. `change` raises LedgerError if the record keeps changing, or MetadataUnavailable. Both
    methods raise MetadataWentBack, a subclass of MetadataUnavailable, if the store has an earlier version than one that
    was seen before."""

    async def refresh(self) -> R:
        known = self.found.version
        found = await self._read()
        check_not_older(f"the record of {self.what}", found.version, known)
        self.take(found)
        return self.record

    async def change(self, transition: Callable[[R], R]) -> R:
        with metadata_errors():
            return await super().change(transition)


async def change_record(
    ledgers: LedgerStore, record: LedgerRecord, version: Version, *, unless_held: bool = False
) -> VersionedRecord | Conflict | LedgerError:
    """Performs one compare-and-swap, and resolves an ambiguous outcome (rule M1). A change that closes the ledger also
    records the time.

    With `unless_held`, returns LedgerRecoveryFailed and changes nothing while the metadata is in an older state that
    has not been accepted.
    """
    if record.is_closed and not record.closed_ms:
        record = replace(record, closed_ms=time.time_ns() // 1_000_000)
    try:
        return await ledgers.change(record, version, unless_held=unless_held)
    except MetadataRestored as error:
        return LedgerRecoveryFailed(record.ledger_id, str(error))
    except KeyConflict:
        pass  # another client was faster: read the record that it stored
    except StoreUnavailable as error:
        return unavailable_error(error)
    try:
        found = await ledgers.read_again(record)
        if found is None and isinstance(
            unknown := await lost_record_error(ledgers, record.ledger_id), MetadataUnavailable
        ):
            return unknown
        return Conflict(found)
    except MetadataError as error:
        return unavailable_error(error)


def unwrap_outcome(
    outcome: VersionedRecord | Conflict | LedgerError, ledger_id: int
) -> tuple[VersionedRecord, bool]:
    """Returns the stored record after a change, and whether it was stored by this change rather than by another client.
    Raises `outcome` if it is an error, or NoSuchLedger."""
    match outcome:
        case VersionedRecord():
            return outcome, True
        case Conflict(VersionedRecord() as found):
            return found, False
        case Conflict():
            raise NoSuchLedger(ledger_id)
        case error:
            raise error


def unavailable_error(error: MetadataError) -> MetadataUnavailable:
    """Returns the client's error for a store that did not answer, or that refused the call."""
    if isinstance(error, StoreRefused):
        return MetadataUnavailable(f"the metadata store refused the call: {error}")
    return MetadataUnavailable(f"the metadata store did not answer: {error}")


class ChangingMachine(Protocol[E]):
    """A state machine that requests compare-and-swaps and receives their outcomes as events."""

    def changed(self, record: LedgerRecord) -> list[E]: ...
    def conflicted(self, found: LedgerRecord | None) -> list[E]: ...
    def change_failed(self, error: LedgerError) -> list[E]: ...


class RecordVersion:
    """The version of the ledger's record that a handle's next compare-and-swap expects."""

    def __init__(
        self, ledgers: LedgerStore, found: VersionedRecord, marks: Marks, *, unless_held: bool = False
    ) -> None:
        self._ledgers = ledgers
        self._unless_held = unless_held
        self._marks = marks
        self.version = found.version

    async def change(self, record: LedgerRecord, machine: ChangingMachine[E]) -> list[E]:
        """Attempts the change and reports its outcome to the machine; returns the resulting effects."""
        match await change_record(self._ledgers, record, self.version, unless_held=self._unless_held):
            case VersionedRecord(stands, version):
                self.version = version
                await mark_if_underreplicated(self._marks, stands)
                return machine.changed(stands)
            case Conflict(found):
                if found is not None:
                    self.version = found.version
                return machine.conflicted(found.record if found else None)
            case error:
                return machine.change_failed(error)
