"""Computes the entries of a ledger that the metadata places at one bookie (rule W1). Pure: ranges in, ranges out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from metadata.records.ledger_record import BookieRef, LedgerRecord, Shape

from ...wire.messages import EntryRange

ENTRY_MAX = 2**63 - 1
"""The largest entry id: the last fragment of an open ledger ends there."""

EVERYTHING = EntryRange(0, ENTRY_MAX)


@dataclass(frozen=True, slots=True)
class PlacedEntries:
    """The entries that one fragment places at one bookie: those of [first_entry, last_entry] that its position holds.

    Position p holds entry i if (p − i) mod E < Qw. So it holds Qw consecutive entries out of every E, and all of them
    if the ledger is not striped.
    """

    first_entry: int
    last_entry: int
    position: int
    shape: Shape

    @property
    def is_striped(self) -> bool:
        """Whether some entries of the range are placed only at other bookies."""
        return self.shape.ensemble_size > self.shape.write_quorum

    def holds(self, entry_id: int) -> bool:
        """Returns whether this entry of the range is placed here."""
        return self._turn(entry_id) < self.shape.write_quorum

    def first_from(self, entry_id: int) -> int:
        """Returns the first entry at or after `entry_id` that is placed here; it may lie after the range."""
        return entry_id + max(0, self._turn(entry_id) - self.shape.write_quorum + 1)

    def last_until(self, entry_id: int) -> int:
        """Returns the last entry at or before `entry_id` that is placed here; it may lie before the range."""
        turn = self._turn(entry_id)
        return entry_id if turn < self.shape.write_quorum else entry_id - self.shape.ensemble_size + turn

    def between(self, first_entry: int, last_entry: int) -> EntryRange | None:
        """Returns the range from the first to the last of the entries in [first_entry, last_entry] that are placed
        here, or None if there are none."""
        first = self.first_from(max(first_entry, self.first_entry))
        last = self.last_until(min(last_entry, self.last_entry))
        return EntryRange(first, last) if first <= last else None

    def ids(self, first_entry: int, last_entry: int) -> set[int]:
        """Returns the ids of all entries of this part of the range that are placed here; the part must be of bounded
        size."""
        found: set[int] = set()
        for first in range(first_entry, min(last_entry + 1, first_entry + self.shape.ensemble_size)):
            if self.holds(first):
                found.update(range(first, last_entry + 1, self.shape.ensemble_size))
        return found

    def _turn(self, entry_id: int) -> int:
        return (self.position - entry_id) % self.shape.ensemble_size


EVERY_ENTRY = PlacedEntries(0, ENTRY_MAX, 0, Shape(1, 1, 1))
"""The share of a bookie that holds every entry."""


def shares(record: LedgerRecord, bookie: BookieRef) -> list[PlacedEntries]:
    """Returns the shares of this incarnation of the bookie in each fragment that names it, in ascending order."""
    return [
        share
        for share in _named(record, bookie)
        if share.between(share.first_entry, share.last_entry) is not None
    ]


Part = tuple[PlacedEntries, EntryRange]
"""A part of a share's range that begins and ends with an entry placed here."""


def parts(record: LedgerRecord, bookie: BookieRef, spans: Sequence[EntryRange]) -> list[Part]:
    """Returns the parts of these ascending, disjoint spans that are placed at this bookie, in ascending order."""
    found: list[Part] = []
    begin = 0
    for share in shares(record, bookie):
        while begin < len(spans) and spans[begin].last_entry < share.first_entry:
            begin += 1
        for span in islice(spans, begin, None):
            if span.first_entry > share.last_entry:
                break
            part = share.between(span.first_entry, span.last_entry)
            if part is not None:
                found.append((share, part))
    return found


def _named(record: LedgerRecord, bookie: BookieRef) -> Iterator[PlacedEntries]:
    end = ENTRY_MAX if record.last_entry is None else record.last_entry
    ends = [following.first_entry - 1 for following in record.fragments[1:]] + [end]
    for fragment, last_entry in zip(record.fragments, ends, strict=True):
        if bookie in fragment.ensemble:
            position = fragment.ensemble.index(bookie)
            yield PlacedEntries(fragment.first_entry, last_entry, position, record.shape)
