"""Tracks, for the ledger's record, which copies may lack which confirmed entries (rule W6).

An entry is confirmed when an ack quorum has it. The other copies in its write quorum may still be in flight, or may
never arrive, because a bookie failed or the writer stopped sending to it. The record must list such copies; otherwise
finding them would mean asking every bookie for every entry. When in doubt, the record lists more than is missing, never
less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from metadata.records.ledger_record import ENTRY_ID_MAX, LedgerRecord

from .striping import Striping


def in_doubt(record: LedgerRecord, first_entry: int, last_entry: int) -> LedgerRecord:
    """Returns a copy of the record which states that any copy of these entries of the last fragment may be missing,
    because it is unknown which bookies have them."""
    striping = Striping(record.shape)
    for n in range(record.shape.ensemble_size):
        if (held := striping.held_between(n, first_entry, last_entry)) is not None:
            record = record.with_lacking(n, *held)
    return record


@dataclass(frozen=True, slots=True)
class _Gap:
    position: int
    first_entry: int
    last_entry: int


class Shortfall:
    """The entries that one writer's positions lack, and which of those entries the record already lists."""

    def __init__(self, striping: Striping, absent: Iterable[int] = ()) -> None:
        """`absent`: positions that lack every entry, according to the record (rule W9)."""
        self._striping = striping
        self._absent = frozenset(absent)
        self._lost: list[_Gap] = []  # permanent gaps that are not in the record yet
        self._recorded_in_flight: list[_Gap] = []  # gaps in flight at the last update of the record
        self._hoped: list[_Gap] = []  # gaps that are in the record, and may have been filled since

    def withdrawn(self, position: int, acked_through: int, confirmed_through: int) -> None:
        """Notes that the position restarts after the LAC, so confirmed entries that it never acknowledged are not
        resent."""
        hoped = [one for one in self._hoped if one.position == position and one.last_entry > acked_through]
        self._hoped = [one for one in self._hoped if one not in hoped]
        gap = self._gap(position, acked_through, confirmed_through)
        if gap is not None and not any(one.last_entry == gap.last_entry for one in hoped):
            self._lost.append(gap)

    def update_record(
        self, record: LedgerRecord, acked: Mapping[int, int], confirmed_through: int
    ) -> LedgerRecord:
        """Returns the record with its lists of missing entries updated: adds all entries that may now be missing, and
        removes those that have since arrived.

        `acked`: the last entry that each position has acknowledged.
        """
        for position in self._absent:  # the actual gaps of these positions are known by now
            record = record.without_lacking(position, 0, ENTRY_ID_MAX)
        for gap in self._hoped:  # entries that have not arrived are still in flight, so they are added again
            record = record.without_lacking(gap.position, gap.first_entry, gap.last_entry)
        gaps = (self._gap(n, through, confirmed_through) for n, through in acked.items())
        self._recorded_in_flight = [gap for gap in gaps if gap is not None]
        for gap in (*self._lost, *self._recorded_in_flight):
            record = record.with_lacking(gap.position, gap.first_entry, gap.last_entry)
        return record

    def record_stored(self) -> None:
        """Notes that the record most recently returned by `update_record` has been stored."""
        self._lost, self._hoped, self._absent = [], self._recorded_in_flight, frozenset()

    def _gap(self, position: int, acked_through: int, confirmed_through: int) -> _Gap | None:
        held = self._striping.held_between(position, acked_through + 1, confirmed_through)
        return None if held is None else _Gap(position, *held)
