"""Where each ledger's frames stand in the log: recent ones in memory, the rest in LMDB.

    places   (ledger, span class, first entry, position) → (last entry, entries, record bytes)
    ledgers  ledger → its state (fence, last-add-confirmed)
    meta     "checkpoint" → position: the log before it is in the index

The position is part of the key, so a frame never hides another one that begins at the same entry.
Frames are kept by class of span (last − first entry): those that may hold an entry begin within
their class's reach before it, so a look-up walks over a few frames of each class, however long
the ledger and however mixed its frames.
A checkpoint moves the recent frames and the changed states into LMDB in the same transaction as
its position: no separate mark can disagree with it. After a crash the log is read from the
checkpoint on, and the recent part is the same again.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import lmdb

from .errors import IndexUnusable
from .ledger_state import LedgerState
from .wire.columns import Columns

MAP_BYTES_MAX = 256 * 1024**3
"""Address space LMDB may use; the file only takes what is in it."""

ROWS_PER_CALL = 10_000

_META_PAGES = 2

_KEY = struct.Struct(">QBQQ")
_VALUE = struct.Struct("<QII")
_LEDGER = struct.Struct(">Q")
_POSITION = struct.Struct("<Q")
_CHECKPOINT = b"checkpoint"


class Place(NamedTuple):
    """A frame's place; ordered by first entry, then by position."""

    first_entry: int
    position: int
    last_entry: int
    entries: int
    size: int


_ANY_POSITION = (0, 0, 0, 0)


def place_of_frame(columns: Columns | None, position: int, size: int) -> Place | None:
    """Where the index says that a record's entries stand; None for a record without any."""
    if columns is None or not len(columns):
        return None
    return Place(columns.first_entry, position, columns.last_entry, len(columns), size)


Row = bytes | memoryview  # what LMDB hands out

SPAN_CLASSES = 17
"""Class c holds spans below 16**c; 64-bit entry ids need no more."""


def span_class(place: Place) -> int:
    return int((place.last_entry - place.first_entry).bit_length() + 3) // 4


def _reach(span: int, entry_id: int) -> int:
    """The first entry from which on a frame of this class can hold `entry_id`."""
    return max(0, entry_id - (1 << 4 * span) + 1)


class RecentPlaces:
    """Frames that are not in LMDB yet, by ledger and span class, in order."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, list[Place]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, ledger_id: int, place: Place) -> None:
        places = self._of.setdefault(ledger_id, {}).setdefault(span_class(place), [])
        if not places or places[-1] < place:
            places.append(place)
        else:
            insort(places, place)
        self._count += 1

    def holding(self, ledger_id: int, first_entry: int, last_entry: int) -> list[Place]:
        """Frames that may hold entries of [first_entry, last_entry], in order."""
        found: list[Place] = []
        for span, places in self._of.get(ledger_id, {}).items():
            start = bisect_left(places, Place(_reach(span, first_entry), *_ANY_POSITION))
            found += places[start : bisect_left(places, Place(last_entry + 1, *_ANY_POSITION), start)]
        return sorted(found)

    def __iter__(self) -> Iterator[tuple[int, Place]]:
        for ledger_id, classes in self._of.items():
            for places in classes.values():
                for place in places:
                    yield ledger_id, place


class Index:
    """The index of one bookie. `add` and `between` belong to the event loop's thread; LMDB is read
    on any thread, and written by one checkpoint at a time."""

    def __init__(self, directory: Path) -> None:
        try:
            _check_not_cut(directory / "data.mdb", pages=_META_PAGES)
            self._env = lmdb.open(
                str(directory), map_size=MAP_BYTES_MAX, max_dbs=3, subdir=True, mode=0o600, max_readers=64
            )
            _check_not_cut(directory / "data.mdb", pages=self._env.info()["last_pgno"] + 1)
            self._places = self._env.open_db(b"places")
            self._ledgers = self._env.open_db(b"ledgers")
            self._meta = self._env.open_db(b"meta")
        except lmdb.Error as error:
            raise IndexUnusable(
                f"the index in {directory} cannot be used ({error}); move the files in it away and start again: "
                "it is made anew from the log"
            ) from error
        self._recent = RecentPlaces()
        self._moving = RecentPlaces()

    def close(self) -> None:
        self._env.close()

    @property
    def recent_frames(self) -> int:
        """Frames that the next checkpoint will move."""
        return len(self._recent)

    def add(self, ledger_id: int, place: Place) -> None:
        """A frame is on disk."""
        self._recent.add(ledger_id, place)

    def recent_holding(self, ledger_id: int, first_entry: int, last_entry: int) -> list[Place]:
        """Frames not yet in LMDB that may hold entries of the range; take this before `holding`, so that a
        checkpoint in between can show a frame twice but never hide it."""
        moving = self._moving.holding(ledger_id, first_entry, last_entry)
        return sorted(moving + self._recent.holding(ledger_id, first_entry, last_entry))

    def holding(
        self, ledger_id: int, first_entry: int, last_entry: int, recent: Iterable[Place], limit: int
    ) -> list[Place]:
        """Up to `limit` frames that may hold entries of the range, in order, each once. On any thread."""
        with self._env.begin() as txn:
            stored = [
                self._stored(txn, ledger_id, span, _reach(span, first_entry), last_entry)
                for span in range(SPAN_CLASSES)
            ]
            found: list[Place] = []
            for place in merge(*stored, recent):
                if found and found[-1] == place:
                    continue
                if place.last_entry >= first_entry:
                    found.append(place)
                if len(found) == limit:
                    break
            return found

    def _stored(
        self, txn: lmdb.Transaction, ledger_id: int, span: int, low: int, high: int
    ) -> Iterator[Place]:
        cursor = txn.cursor(self._places)
        if not cursor.set_range(_KEY.pack(ledger_id, span, low, 0)):
            return
        for key, value in cursor:
            ledger, found_span, place = _from_row(key, value)
            if ledger != ledger_id or found_span != span or place.first_entry > high:
                return
            yield place

    def ledger(self, ledger_id: int) -> LedgerState | None:
        """A ledger's state as of the last checkpoint."""
        with self._env.begin(db=self._ledgers) as txn:
            row = txn.get(_LEDGER.pack(ledger_id))
        return None if row is None else LedgerState.decode(ledger_id, bytes(row))

    def ledger_ids(self) -> list[int]:
        """Every ledger the last checkpoint knew."""
        with self._env.begin(db=self._ledgers) as txn:
            return [int(_LEDGER.unpack(key)[0]) for key in txn.cursor().iternext(values=False)]

    def places(self) -> Iterator[tuple[int, Place]]:
        """Every frame the last checkpoint knew, with its ledger."""
        with self._env.begin(db=self._places) as txn:
            for key, value in txn.cursor():
                ledger_id, _, place = _from_row(key, value)
                yield ledger_id, place

    @property
    def checkpoint_position(self) -> int:
        """The log before this position is in the index; 0 for an empty one."""
        with self._env.begin(db=self._meta) as txn:
            value = txn.get(_CHECKPOINT)
        return 0 if value is None else int(_POSITION.unpack(value)[0])

    def begin_checkpoint(self) -> None:
        """Sets the recent frames aside for `commit_checkpoint`; new ones gather anew."""
        assert not len(self._moving), "one checkpoint at a time"
        self._moving, self._recent = self._recent, RecentPlaces()

    def commit_checkpoint(self, position: int, ledger_rows: Iterable[tuple[int, bytes]]) -> None:
        """One transaction, on disk when this returns. Runs on any thread. Raises IndexUnusable."""
        try:
            with self._env.begin(write=True) as txn:
                self._put_all(txn, position, ledger_rows)
        except lmdb.Error as error:
            raise IndexUnusable(f"the index cannot be written: {error}") from error

    def _put_all(
        self, txn: lmdb.Transaction, position: int, ledger_rows: Iterable[tuple[int, bytes]]
    ) -> None:
        cursor = txn.cursor(self._places)
        rows = (_row(ledger_id, place) for ledger_id, place in self._moving)
        while batch := list(islice(rows, ROWS_PER_CALL)):
            cursor.putmulti(batch)
        for ledger_id, row in ledger_rows:
            txn.put(_LEDGER.pack(ledger_id), row, db=self._ledgers)
        txn.put(_CHECKPOINT, _POSITION.pack(position), db=self._meta)

    def end_checkpoint(self) -> None:
        """The moved frames are found in LMDB from now on; called on the event loop's thread."""
        self._moving = RecentPlaces()

    def abandon_checkpoint(self) -> None:
        """The commit failed; the frames are recent again, and the next checkpoint moves them."""
        moving, self._moving = self._moving, RecentPlaces()
        for ledger_id, place in moving:
            self._recent.add(ledger_id, place)


def _check_not_cut(file: Path, *, pages: int) -> None:
    """LMDB maps its file, and reading past the end of a map kills the process: look at the size first."""
    if file.exists() and 0 < file.stat().st_size < pages * mmap.PAGESIZE:
        raise lmdb.CorruptedError(f"{file.name} is cut short")


def _row(ledger_id: int, place: Place) -> tuple[bytes, bytes]:
    key = _KEY.pack(ledger_id, span_class(place), place.first_entry, place.position)
    return key, _VALUE.pack(place.last_entry, place.entries, place.size)


def _from_row(key: Row, value: Row) -> tuple[int, int, Place]:
    """(ledger, span class, place) of a row."""
    ledger_id, span, first_entry, position = _KEY.unpack(key)
    last_entry, entries, size = _VALUE.unpack(value)
    return ledger_id, span, Place(first_entry, position, last_entry, entries, size)
