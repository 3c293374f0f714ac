"""Changing a ledger's record by compare-and-swap, with the outcome as a value for the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from metadata.errors import MetadataError, NoSuchKey, StoreUnavailable, VersionConflict
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord

from .errors import LedgerError, MetadataUnavailable

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Conflict:
    """The compare-and-swap failed; `found` is what stands, None where the ledger was deleted."""

    found: VersionedRecord | None


async def change_record(
    ledgers: LedgerStore, record: LedgerRecord, version: int
) -> VersionedRecord | Conflict | MetadataUnavailable:
    """One compare-and-swap with its outcome settled (rule M1), as a value for the machine."""
    try:
        return await ledgers.change(record, version)
    except (VersionConflict, NoSuchKey):
        pass  # somebody was faster: look at what stands
    except StoreUnavailable as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")
    try:
        return Conflict(await ledgers.read(record.ledger_id))
    except MetadataError as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")


class ChangingMachine(Protocol[E]):
    """A machine that asks for compare-and-swaps and wants to know what became of them."""

    def changed(self, record: LedgerRecord) -> list[E]: ...
    def conflicted(self, found: LedgerRecord | None) -> list[E]: ...
    def change_failed(self, error: LedgerError) -> list[E]: ...


class RecordVersion:
    """The version of the ledger's record that a handle's next change must name."""

    def __init__(self, ledgers: LedgerStore, found: VersionedRecord) -> None:
        self._ledgers = ledgers
        self.version = found.version

    async def change(self, record: LedgerRecord, machine: ChangingMachine[E]) -> list[E]:
        """Makes the change, or not, and tells the machine; returns the effects that follow."""
        match await change_record(self._ledgers, record, self.version):
            case VersionedRecord(stands, version):
                self.version = version
                return machine.changed(stands)
            case Conflict(found):
                if found is not None:
                    self.version = found.version
                return machine.conflicted(found.record if found else None)
            case error:
                return machine.change_failed(error)
