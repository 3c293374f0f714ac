"""Locations of frames in the log, and their rows in the index. Pure.

    places   (ledger, span class, first entry, position) → (last entry, entries, record bytes)

Frames are grouped into classes by span (last − first entry). A frame that contains an entry begins before that entry,
by no more than the maximum span of the frame's class. A lookup therefore examines only a few frames of each class,
however long the ledger is and however much its frames vary.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..wire.columnar_entries import Columns
from ..wire.named_tuples import made_of

KEY = struct.Struct(">QBQQ")
VALUE = struct.Struct("<QII")

Row = bytes | memoryview
"""A key or value as LMDB returns it."""


class FrameLocation(NamedTuple):
    """A frame's location; ordered by first entry, then by position."""

    first_entry: int
    position: int
    last_entry: int
    entries: int
    size: int

    def bytes_within(self, first_entry: int, last_entry: int) -> int:
        """Returns the approximate size of the frame's entries that lie in this range."""
        first, last = max(first_entry, self.first_entry), min(last_entry, self.last_entry)
        return self.size * max(0, last - first + 1) // (self.last_entry - self.first_entry + 1)


_location: Callable[[tuple[int, int, int, int, int]], FrameLocation] = made_of(FrameLocation)

Frame = tuple[int, FrameLocation]
"""A ledger, and the location of one of its frames."""

_ANY_POSITION = (0, 0, 0, 0)


def place_of_frame(columns: Columns | None, position: int, size: int) -> FrameLocation | None:
    """Returns the location to index for a record; None if the record contains no entries."""
    if columns is None or not (entries := len(columns)):
        return None
    return _location((columns.first_entry, position, columns.last_entry, entries, size))


SPAN_CLASSES = 17
"""Number of span classes, enough for 64-bit entry ids. Class c contains the spans below 16**c."""


def span_class(place: FrameLocation) -> int:
    return int((place.last_entry - place.first_entry).bit_length() + 3) // 4


def reach(span: int, entry_id: int) -> int:
    """Returns the lowest first entry that a frame of this class can have if it contains `entry_id`."""
    return max(0, entry_id - (1 << 4 * span) + 1)


def key_of(ledger_id: int, place: FrameLocation) -> bytes:
    return KEY.pack(ledger_id, span_class(place), place.first_entry, place.position)


def to_row(ledger_id: int, place: FrameLocation) -> tuple[bytes, bytes]:
    return key_of(ledger_id, place), VALUE.pack(place.last_entry, place.entries, place.size)


def from_row(key: Row, value: Row) -> tuple[int, int, FrameLocation]:
    """Decodes a row into (ledger, span class, place). Raises ValueError."""
    try:
        ledger_id, span, first_entry, position = KEY.unpack(key)
        last_entry, entries, size = VALUE.unpack(value)
    except struct.error as error:
        raise ValueError(
            f"a row with a key of {len(key)} bytes and a value of {len(value)} bytes is not a place"
        ) from error
    return ledger_id, span, FrameLocation(first_entry, position, last_entry, entries, size)


class RecentLocations:
    """Changes not yet in LMDB: frames by ledger and span class, in order; state records; places to delete."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, list[FrameLocation]]] = {}
        self._count = 0
        self.states: Counter[tuple[int, int]] = Counter()
        """(segment, ledger): number of state records there."""
        self.removed: list[tuple[int, FrameLocation]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def is_empty(self) -> bool:
        return not (self._count or self.states or self.removed)

    def add(self, ledger_id: int, place: FrameLocation) -> None:
        places = self._of.setdefault(ledger_id, {}).setdefault(span_class(place), [])
        if not places or places[-1] < place:
            places.append(place)
        else:
            insort(places, place)
        self._count += 1

    def holding(self, ledger_id: int, first_entry: int, last_entry: int) -> list[FrameLocation]:
        """Returns the frames that may hold entries in [first_entry, last_entry], in order."""
        found: list[FrameLocation] = []
        for span, places in self._of.get(ledger_id, {}).items():
            start = bisect_left(places, FrameLocation(reach(span, first_entry), *_ANY_POSITION))
            found += places[start : bisect_left(places, FrameLocation(last_entry + 1, *_ANY_POSITION), start)]
        return sorted(found)

    def __iter__(self) -> Iterator[tuple[int, FrameLocation]]:
        for ledger_id, classes in self._of.items():
            for places in classes.values():
                for place in places:
                    yield ledger_id, place

    def forget(self, ledger_id: int) -> None:
        """Discards this ledger's frames and pending deletions."""
        self._count -= sum(map(len, self._of.pop(ledger_id, {}).values()))
        self.removed = [one for one in self.removed if one[0] != ledger_id]

    def take_back(self, other: RecentLocations) -> None:
        """Merges the changes of `other` back in after a failed checkpoint."""
        for ledger_id, place in other:
            self.add(ledger_id, place)
        self.states.update(other.states)
        self.removed += other.removed
