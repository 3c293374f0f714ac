"""A ledger's record, made again from what bookies noted of its fragments, and what they could not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.reconciling import NotedBy, of_one_ledger, reconciled


@dataclass(frozen=True, slots=True)
class RebuiltLedger:
    """A record, and what could not be known of the ledger."""

    record: LedgerRecord
    doubts: tuple[str, ...] = ()


def rebuilt_ledger(noted: Sequence[NotedBy]) -> RebuiltLedger:
    """The record of one ledger, from all that was noted under its id. Raises ValueError where it fits nothing."""
    record = reconciled(None, noted)
    assert record is not None
    ours = of_one_ledger(record, noted)
    return RebuiltLedger(record, (*_missing(ours), *_others(noted, ours)))


def _missing(noted: Sequence[NotedBy]) -> Iterator[str]:
    first = min(one.note.fragment.first_entry for one in noted)
    if first > 0:
        yield f"nobody noted where the entries before {first} are"
    numbers = {one.note.fragment.number for one in noted}
    lost = sorted({*range(1, max(numbers) + 1)} - numbers) if min(numbers) == 1 else []
    if lost:
        yield f"nobody noted fragment {', '.join(map(str, lost))} of it, where some of the entries may be"


def _others(noted: Sequence[NotedBy], ours: Sequence[NotedBy]) -> Iterator[str]:
    if len(ours) < len(noted):  # the store went back earlier, and gave the id twice (rule W8)
        yield "another ledger has the same id, and is left out"
