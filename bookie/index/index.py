"""Finds each ledger's frames in the log: recent ones in memory, the rest in LMDB (rows: `frame_locations.py`).

    places   every live frame; sums: how many rows each ledger should have (`places_table.py`)
    usage    bytes of each ledger in each segment: shows which segments to compact or to drop
    ledgers  ledger → its state (fence, last-add-confirmed)
    notes    notes of each ledger's fragments, in addition to their entries (`notes_table.py`)
    meta     "checkpoint" → position: the log before it is in the index; "version" → 1; sums of usage, ledgers, sums

A checkpoint writes its position, the recent frames and the changed states to LMDB in one transaction, so they can never
disagree. After a crash, reading the log from the checkpoint on restores the recent frames.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import lmdb

from ..errors import IndexDamaged, IndexUnusable, NewerFormat
from ..log.format import BookieLogRecord
from ..wire.messages import Holding
from .frame_locations import FrameLocation, RecentLocations, place_of_frame
from .holdings import Overhead, runs_of
from .local_ledger_state import LocalLedgerState
from .notes_table import NotesTable
from .places_table import PlacesTable
from .summed_table import Meta, SummedTable, readable
from .usage import UsageTable

MAP_BYTES_MAX = 256 * 1024**3
"""Address space that LMDB may use; the file occupies only the space in use."""

ROWS_PER_CALL = 10_000

PLACES_PER_PAGE_MAX = 4096
"""Maximum number of frames examined for one page; a page of tiny frames ends at this limit."""

READ_TIMES_MAX = 4
"""Maximum read amplification: bytes read for a page, as a multiple of its size. More bytes are read than requested
because a frame may overlap the page only partly."""

FORMAT_VERSION = 1

_META_PAGES = 2

DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PageFullError, lmdb.BadTxnError, struct.error)
"""Errors from LMDB, or from unpacking a row, that mean a corrupt file."""

_OF_THE_SYSTEM = (
    lmdb.DiskError,
    lmdb.InvalidParameterError,
    lmdb.LockError,
    lmdb.MemoryError,
    lmdb.ReadonlyError,
)
"""LMDB errors that mean, as a plain Error does, that the operating system refused an operation: the file may be
undamaged."""

_LEDGER = struct.Struct(">Q")
_POSITION = struct.Struct("<Q")
_CHECKPOINT = b"checkpoint"
_VERSION = b"version"
_LIMBO = b"limbo"


class Index:
    """The index of one bookie. `add`, `remove` and `recent_holding` must be called on the event loop's thread. Any
    thread may read from LMDB, but only one at a time may write to it."""

    def __init__(self, directory: Path, bytes_max: int = MAP_BYTES_MAX) -> None:
        try:
            _check_not_cut(directory / "data.mdb", pages=_META_PAGES)
            self._env = lmdb.open(
                str(directory), map_size=bytes_max, max_dbs=6, subdir=True, mode=0o600, max_readers=64
            )
            _check_not_cut(directory / "data.mdb", pages=self._env.info()["last_pgno"] + 1)
            self._meta = Meta(self._env)
            self._places = PlacesTable(self._env, self._meta)
            self.usage = UsageTable(self._env, self._meta)
            self._ledgers = SummedTable(self._env, b"ledgers", self._meta)
            self.notes = NotesTable(self._env, self._meta, self._ledgers)
            self._check_version(directory)
            self.check_tables()
        except (lmdb.Error, struct.error, IndexDamaged) as error:
            if type(error) is lmdb.Error or isinstance(error, _OF_THE_SYSTEM):
                raise IndexUnusable(f"the index in {directory} cannot be opened: {_why(error)}") from error
            raise IndexUnusable(
                f"the index in {directory} cannot be used ({error}); stop the bookie and rebuild it from the log: "
                f"bookledger bookie rebuild-index --data {directory.parent}"
            ) from error
        self._recent = RecentLocations()
        self._moving = RecentLocations()

    def _check_version(self, directory: Path) -> None:
        with self._env.begin() as txn:
            checkpoint = txn.get(_CHECKPOINT, db=self._meta.db)
            version = None if checkpoint is None else self._version(txn)
        if version is not None and version != FORMAT_VERSION:
            raise NewerFormat(f"the index in {directory}", FORMAT_VERSION)

    def _version(self, txn: lmdb.Transaction) -> int:
        return int(_POSITION.unpack(self._meta.get(txn, _VERSION) or b"")[0])

    def check_tables(self) -> None:
        """Raises IndexDamaged if any of the tables of ledgers, sums, usage or notes is corrupt.

        Takes time proportional to the number of ledgers.
        """
        with readable(), self._env.begin() as txn:
            for table in self._tables:
                table.check(txn)

    def is_whole(self, ledger_id: int) -> bool:
        """Returns whether the index contains every frame of the ledger that it should: only then may the bookie report
        an entry as absent (rule R6).

        Takes time proportional to the number of the ledger's frames.
        """
        with readable(), self._env.begin() as txn:
            return self._places.is_whole(txn, ledger_id)

    @property
    def _tables(self) -> tuple[SummedTable, ...]:
        return self._ledgers, self._places.sums, self.usage.table, self.notes.table

    @property
    def size_bytes(self) -> int:
        """Bytes in use in the index's file."""
        info = self._env.info()
        return int((info["last_pgno"] + 1) * self._env.stat()["psize"])

    @property
    def bytes_max(self) -> int:
        """Maximum size of the index, in bytes."""
        return int(self._env.info()["map_size"])

    @property
    def ledger_count(self) -> int:
        """Number of ledgers at the last checkpoint; cheap to get."""
        with readable(), self._env.begin() as txn:
            return int(txn.stat(self._ledgers.db)["entries"])

    def close(self) -> None:
        self._env.close()

    # --- finding ----------------------------------------------------------------------------

    def recent_holding(self, ledger_id: int, first_entry: int, last_entry: int) -> list[FrameLocation]:
        """Returns the frames not yet in LMDB that may hold entries in the range. Call this before `holding`: a
        checkpoint in between can then cause a frame to be found twice, but never to be missed."""
        moving = self._moving.holding(ledger_id, first_entry, last_entry)
        return sorted(moving + self._recent.holding(ledger_id, first_entry, last_entry))

    def holding(
        self, ledger_id: int, first_entry: int, last_entry: int, recent: Iterable[FrameLocation], limit: int
    ) -> list[FrameLocation]:
        """Returns up to `limit` frames that may hold entries in the range, in order, each once. Callable from any
        thread."""
        with readable(), self._env.begin() as txn:
            return list(islice(self._places.holding(txn, ledger_id, first_entry, last_entry, recent), limit))

    def page(
        self,
        ledger_id: int,
        first_entry: int,
        last_entry: int,
        recent: Iterable[FrameLocation],
        bytes_max: int,
    ) -> tuple[list[FrameLocation], int]:
        """Returns the frames for one page, and the last entry up to which they are complete. Callable from any thread.

        Covers about `bytes_max` of the requested entries, and at most PLACES_PER_PAGE_MAX frames. Includes at least all
        frames that begin at or before the first entry, unless there are too many of them.
        """
        found: list[FrameLocation] = []
        size, begun = 0, first_entry
        with readable(), self._env.begin() as txn:
            for place in self._places.holding(txn, ledger_id, first_entry, last_entry, recent):
                is_enough = size >= bytes_max and place.first_entry > begun
                if is_enough or len(found) == PLACES_PER_PAGE_MAX:
                    return found, place.first_entry - 1
                found.append(place)
                size += max(place.bytes_within(first_entry, last_entry), place.size // READ_TIMES_MAX)
                begun = max(begun, place.first_entry)
        return found, last_entry

    def holdings(
        self,
        ledger_id: int,
        first_entry: int,
        last_entry: int,
        recent: Iterable[FrameLocation],
        step_bytes: int,
        overhead: Overhead,
    ) -> tuple[tuple[Holding, ...], int]:
        """Returns the ledger's extents, and the last entry up to which they are complete. Callable from any thread."""
        with readable(), self._env.begin() as txn:
            places = self._places.holding(txn, ledger_id, first_entry, last_entry, recent)
            return runs_of(places, first_entry, last_entry, step_bytes, overhead)

    def ledger(self, ledger_id: int) -> LocalLedgerState | None:
        """Returns a ledger's state as of the last checkpoint."""
        with readable(), self._env.begin() as txn:
            row = self._ledgers.get(txn, _LEDGER.pack(ledger_id))
        return None if row is None else _state(ledger_id, row)

    def ledger_ids(self) -> list[int]:
        """Returns the ids of all ledgers as of the last checkpoint, in ascending order."""
        with readable(), self._env.begin() as txn:
            return [int(_LEDGER.unpack(key)[0]) for key, _ in self._ledgers.rows(txn)]

    def states(self) -> Iterator[LocalLedgerState]:
        """Yields the state of every ledger as of the last checkpoint."""
        with readable(), self._env.begin() as txn:
            for key, row in self._ledgers.rows(txn):
                yield _state(int(_LEDGER.unpack(key)[0]), bytes(row))

    def places(self, ledger_id: int | None = None) -> Iterator[tuple[int, FrameLocation]]:
        """Yields every frame as of the last checkpoint, with its ledger; if `ledger_id` is given, only that ledger's
        frames."""
        with readable(), self._env.begin() as txn:
            yield from self._places.all(txn, ledger_id)

    def still_points_to(self, frames: Sequence[tuple[int, FrameLocation]]) -> list[bool]:
        """Returns, for each of these frames, whether it was live at the last checkpoint."""
        with readable(), self._env.begin() as txn:
            return [self._places.has(txn, frame) for frame in frames]

    @property
    def checkpoint_position(self) -> int:
        """Position in the log before which everything is in the index; 0 for an empty index."""
        with readable(), self._env.begin() as txn:
            value = self._meta.get(txn, _CHECKPOINT)
        return 0 if value is None else int(_POSITION.unpack(value)[0])

    # --- changes from the log ---------------------------------------------------------------

    @property
    def recent_frames(self) -> int:
        """Number of frames that the next checkpoint will move into LMDB."""
        return len(self._recent)

    @property
    def has_changes(self) -> bool:
        """Whether the next checkpoint has anything to write to the index."""
        return not self._recent.is_empty or self.notes.has_changes

    def apply(self, record: BookieLogRecord, position: int, size: int) -> None:
        """Applies a log record that is on disk: adds its frame, if any, and its fragment's note, if any. Counts the
        record as a state record, unless it is a frame without a note."""
        place = place_of_frame(record.columns, position, size)
        if place is not None:
            self.add(record.ledger_id, place)
        if record.note:
            self.notes.add(record.ledger_id, record.note)
        if place is None or record.note:
            self.add_state(record.ledger_id, position >> 32)

    def add(self, ledger_id: int, place: FrameLocation) -> None:
        """Adds a frame that is on disk."""
        self._recent.add(ledger_id, place)

    def add_state(self, ledger_id: int, segment: int) -> None:
        """Counts one of this ledger's state records (all records except frames without a note) that is on disk in this
        segment."""
        self._recent.states[segment, ledger_id] += 1

    def remove(self, ledger_id: int, place: FrameLocation) -> None:
        """Makes the next checkpoint delete this location, which an earlier checkpoint wrote to LMDB."""
        self._recent.removed.append((ledger_id, place))

    # --- checkpoints ------------------------------------------------------------------------

    def begin_checkpoint(self) -> None:
        """Sets the recent changes aside for `commit_checkpoint`; later ones are collected separately."""
        assert self._moving.is_empty, "one checkpoint at a time"
        self._moving, self._recent = self._recent, RecentLocations()
        self.notes.begin()

    def commit_checkpoint(self, position: int, ledger_rows: Iterable[tuple[int, bytes]]) -> None:
        """Writes, in one transaction, the changes that were set aside; they are on disk when this returns. Callable
        from any thread. Raises IndexUnusable."""
        with self._writing() as txn:
            self._put_all(txn, position, ledger_rows)

    def _put_all(
        self, txn: lmdb.Transaction, position: int, ledger_rows: Iterable[tuple[int, bytes]]
    ) -> None:
        moving = self._moving
        self._places.add(txn, moving)
        self.usage.change(txn, moving, self._places.delete(txn, moving.removed), moving.states)
        for ledger_id, row in ledger_rows:
            self._ledgers.put(txn, _LEDGER.pack(ledger_id), row)
        self.notes.put_all(txn)
        self._meta.put(txn, _CHECKPOINT, _POSITION.pack(position))
        self._meta.put(txn, _VERSION, _POSITION.pack(FORMAT_VERSION))

    def end_checkpoint(self) -> None:
        """Discards the changes that were set aside, which are now in LMDB. Call this on the event loop's thread."""
        self._moving = RecentLocations()
        self.notes.end()

    def abandon_checkpoint(self) -> None:
        """After a failed commit, restores the changes that were set aside; the next checkpoint writes them."""
        moving, self._moving = self._moving, RecentLocations()
        self._recent.take_back(moving)
        self.notes.abandon()

    # --- dropping ---------------------------------------------------------------------------

    def drop(self, frames: Sequence[tuple[int, FrameLocation]]) -> None:
        """Deletes these frames from the index. The deletion is on disk when this returns. Call this only on the thread
        that makes checkpoints."""
        with self._writing() as txn:
            self.usage.change(txn, (), self._places.delete(txn, frames), {})

    def forget(self, ledger_ids: Collection[int]) -> None:
        """Removes these ledgers from the index, except for changes since the last checkpoint began.

        The deletion is on disk when this returns. Call this only on the thread that makes checkpoints. After a crash,
        some frames of a ledger may be gone while the ledger is still known, but never the reverse.
        """
        for ledger_id in ledger_ids:
            while self._forget_some(ledger_id):
                pass  # each call runs in a separate transaction
        with self._writing() as txn:
            self.usage.forget(txn, ledger_ids)
            self.notes.forget(txn, ledger_ids)
            for ledger_id in ledger_ids:
                self._places.sums.delete(txn, _LEDGER.pack(ledger_id))
                self._ledgers.delete(txn, _LEDGER.pack(ledger_id))

    def forget_former(self, ledger_id: int) -> None:
        """Removes this ledger and all its changes from the index. Only for replay, while no other thread is running."""
        self._recent.forget(ledger_id)
        self.notes.forget_recent(ledger_id)
        self.forget([ledger_id])

    def _forget_some(self, ledger_id: int) -> bool:
        with self._writing() as txn:
            return self._places.forget_some(txn, ledger_id, ROWS_PER_CALL)

    def clear_usage(self, segments: Iterable[int]) -> None:
        """Deletes the usage of deleted segments. The deletion is on disk when this returns. Call this only on the
        thread that makes checkpoints."""
        with self._writing() as txn:
            for segment in segments:
                self.usage.clear(txn, segment)

    @property
    def limbo_is_due(self) -> bool:
        """Whether the index was built from a log with losses, and the affected ledgers are not in limbo yet."""
        with readable(), self._env.begin() as txn:
            return self._meta.get(txn, _LIMBO) is not None

    def set_limbo_due(self, due: bool) -> None:
        """Sets or clears the limbo-is-due mark; the change is on disk when this returns."""
        with self._writing() as txn:
            if due:
                self._meta.put(txn, _LIMBO, b"")
            else:
                self._meta.delete(txn, _LIMBO)

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        try:
            with self._env.begin(write=True) as txn:
                for table in self._tables:
                    table.begin(txn)
                yield txn
                for table in self._tables:
                    table.end(txn)
        except (lmdb.Error, struct.error) as error:
            if isinstance(error, DAMAGE):
                raise IndexDamaged(f"a write failed: {error}") from error
            raise IndexUnusable(f"the index cannot be written: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Returns LMDB's message, without the path at its beginning, followed by advice on the error, if there is any."""
    said = str(error).rpartition(": ")[2]
    if isinstance(error, lmdb.MemoryError):
        return (
            f"{said}; give the process more address space, because it maps the index (`ulimit -v unlimited`)"
        )
    return f"{said}; free some space on its disk" if said == os.strerror(errno.ENOSPC) else said


def _state(ledger_id: int, row: bytes) -> LocalLedgerState:
    try:
        return LocalLedgerState.decode(ledger_id, row)
    except ValueError as error:
        raise IndexDamaged(str(error)) from error


def _check_not_cut(file: Path, *, pages: int) -> None:
    """Raises CorruptedError for a truncated file: LMDB maps the file into memory, and a read past its end would kill
    the process."""
    if file.exists() and 0 < file.stat().st_size < pages * mmap.PAGESIZE:
        raise lmdb.CorruptedError(f"{file.name} is truncated")
