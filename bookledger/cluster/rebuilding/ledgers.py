"""Rebuilds a ledger's record from the bookies' notes of its fragments, with what they leave unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.reconciling import NotedBy, of_one_ledger, reconciled


@dataclass(frozen=True, slots=True)
class RebuiltLedger:
    """A record, and its unknowns."""

    record: LedgerRecord
    doubts: tuple[str, ...] = ()


def rebuilt_ledger(noted: Sequence[NotedBy]) -> RebuiltLedger:
    """The record of one ledger, from all notes under its id. Raises ValueError if they do not fit together."""
    record = reconciled(None, noted)
    assert record is not None
    ours = of_one_ledger(record, noted)
    return RebuiltLedger(record, (*_missing(ours), *_others(noted, ours)))


def _missing(noted: Sequence[NotedBy]) -> Iterator[str]:
    first = min(one.note.fragment.first_entry for one in noted)
    if first > 0:
        yield f"no bookie noted the location of the entries before {first}"
    numbers = {one.note.fragment.number for one in noted}
    lost = sorted({*range(1, max(numbers) + 1)} - numbers) if min(numbers) == 1 else []
    if lost:
        yield f"no bookie noted its fragment {', '.join(map(str, lost))}, which may have some of the entries"


def _others(noted: Sequence[NotedBy], ours: Sequence[NotedBy]) -> Iterator[str]:
    if len(ours) < len(noted):  # the store went back earlier, and assigned the id twice (rule W8)
        yield "another ledger has the same id, and is left out"
