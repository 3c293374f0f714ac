"""Changing a ledger's record by compare-and-swap, with the outcome as a value for the machine."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from metadata.errors import MetadataError, NoSuchKey, StoreUnavailable, VersionConflict
from metadata.healing.marks import Marks
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord

from .errors import LedgerError, MetadataUnavailable

log = logging.getLogger(__name__)

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Conflict:
    """The compare-and-swap failed; `found` is what stands, None where the ledger was deleted."""

    found: VersionedRecord | None


async def change_record(
    ledgers: LedgerStore, record: LedgerRecord, version: int
) -> VersionedRecord | Conflict | MetadataUnavailable:
    """One compare-and-swap with its outcome settled (rule M1), as a value for the machine. A close notes its time."""
    if record.is_closed and not record.closed_ms:
        record = replace(record, closed_ms=time.time_ns() // 1_000_000)
    try:
        return await ledgers.change(record, version)
    except (VersionConflict, NoSuchKey):
        pass  # somebody was faster: look at what stands
    except StoreUnavailable as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")
    try:
        return Conflict(await ledgers.read_again(record))
    except MetadataError as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")


async def tell_lacking(marks: Marks, record: LedgerRecord) -> None:
    """Marks a ledger whose record says that copies lack something, so that they are made soon (rule W6).

    A mark that cannot be made is no loss: the next audit finds the record.
    """
    reasons = [
        f"{fragment.ensemble[lack.position]} lacks entries {lack.first_entry} to {lack.last_entry}"
        for fragment in record.fragments
        for lack in fragment.lacking
    ]
    if reasons:
        try:
            await marks.set(record.ledger_id, reasons, time.time_ns() // 1_000_000)
        except MetadataError as error:
            log.info("ledger %d could not be marked for healing: %s", record.ledger_id, error)


class ChangingMachine(Protocol[E]):
    """A machine that asks for compare-and-swaps and wants to know what became of them."""

    def changed(self, record: LedgerRecord) -> list[E]: ...
    def conflicted(self, found: LedgerRecord | None) -> list[E]: ...
    def change_failed(self, error: LedgerError) -> list[E]: ...


class RecordVersion:
    """The version of the ledger's record that a handle's next change must name."""

    def __init__(self, ledgers: LedgerStore, found: VersionedRecord, marks: Marks) -> None:
        self._ledgers = ledgers
        self._marks = marks
        self.version = found.version

    async def change(self, record: LedgerRecord, machine: ChangingMachine[E]) -> list[E]:
        """Makes the change, or not, and tells the machine; returns the effects that follow."""
        match await change_record(self._ledgers, record, self.version):
            case VersionedRecord(stands, version):
                self.version = version
                await tell_lacking(self._marks, stands)
                return machine.changed(stands)
            case Conflict(found):
                if found is not None:
                    self.version = found.version
                return machine.conflicted(found.record if found else None)
            case error:
                return machine.change_failed(error)
