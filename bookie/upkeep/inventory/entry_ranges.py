"""Finds gaps: arithmetic on ranges of entry ids. Pure.

In a striped ledger, a *gap* also spans entries of other bookies. The first and the last entry of a gap are placed here,
and all entries in the gap that are placed here are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...wire.messages import EntryRange
from .placed_entries import PlacedEntries

Ids = Sequence[int]
"""Entry ids, strictly ascending."""


def missing(share: PlacedEntries, first_entry: int, last_entry: int, held: Iterable[Ids]) -> list[EntryRange]:
    """Returns the gaps in [first_entry, last_entry], a part of the share's range, that are not filled by any of `held`.

    Works by range, or entry by entry if the ledger is striped.
    """
    if not share.is_striped:
        return list(uncovered(first_entry, last_entry, (run for ids in held for run in runs(ids))))
    lost = share.ids(first_entry, last_entry)
    for ids in held:
        lost.difference_update(ids)
    return list(_gaps(share, sorted(lost)))


def uncovered(first_entry: int, last_entry: int, covered: Iterable[EntryRange]) -> Iterator[EntryRange]:
    """Yields the parts of [first_entry, last_entry] that no range covers, in order."""
    at = first_entry
    for one in merged(covered):
        if one.first_entry > last_entry:
            break
        if one.first_entry > at:
            yield EntryRange(at, one.first_entry - 1)
        at = max(at, one.last_entry + 1)
    if at <= last_entry:
        yield EntryRange(at, last_entry)


def runs(ids: Ids) -> Iterator[EntryRange]:
    """Splits ids into runs of consecutive ids."""
    if not len(ids):
        return
    if ids[-1] - ids[0] == len(ids) - 1:
        yield EntryRange(ids[0], ids[-1])
        return
    first = last = ids[0]
    for entry_id in ids[1:]:
        if entry_id != last + 1:
            yield EntryRange(first, last)
            first = entry_id
        last = entry_id
    yield EntryRange(first, last)


def merged(ranges: Iterable[EntryRange]) -> list[EntryRange]:
    """Merges ranges into as few as possible, in ascending order."""
    found: list[EntryRange] = []
    for one in sorted(ranges, key=lambda one: one.first_entry):
        if found and one.first_entry <= found[-1].last_entry + 1:
            found[-1] = EntryRange(found[-1].first_entry, max(found[-1].last_entry, one.last_entry))
        else:
            found.append(one)
    return found


def overlap(one: EntryRange, other: EntryRange) -> bool:
    """Returns whether the ranges share an entry."""
    return one.first_entry <= other.last_entry and other.first_entry <= one.last_entry


def contains(whole: EntryRange, part: EntryRange) -> bool:
    """Returns whether every entry of `part` lies in `whole`."""
    return whole.first_entry <= part.first_entry and part.last_entry <= whole.last_entry


def _gaps(share: PlacedEntries, lost: Sequence[int]) -> Iterator[EntryRange]:
    if not lost:
        return
    first = last = lost[0]
    for entry_id in lost[1:]:
        if entry_id != share.first_from(last + 1):
            yield EntryRange(first, last)
            first = entry_id
        last = entry_id
    yield EntryRange(first, last)
