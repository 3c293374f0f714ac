"""Compaction: copies live frames of mostly dead segments to the log's tail, and deletes the segments.

A segment is deleted in this order, so that after a crash at any point the index, or a replay of the log after the
checkpoint, finds every entry:

1. Its live frames are copied to the tail, and synced.
2. A checkpoint points to the copies, and no longer into the segment; ledgers that have fences or states in the segment
get new state records, synced.
3. A SEGMENTS record that no longer lists the segment is synced (`log/manifest.py`).
4. The file is deleted.

Before step 2, the original frames are still in use; after a crash, replay finds the copies after the checkpoint, or the
next run copies the frames again. Between steps 2 and 4, the index no longer points into the file, and the next run
deletes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from metadata.rate_limit import RateLimit

from ...index.frame_locations import FrameLocation, place_of_frame
from ...index.usage import NOTHING, Usage
from ...log import manifest, segment_files
from ...log.format import NO_LEDGER, BookieLogRecord, record_bytes
from ...log.record_reader import Found, read_record
from ...log.segment_walk import walk
from ...storage.bookie import Bookie
from ...storage.core import state_record
from ...wire.messages import NO_NOTE
from ..threads import in_thread

log = logging.getLogger(__name__)

BATCH_BYTES = 256 * 1024
"""Bytes read and appended per step; small, so that a client's append that arrives in the meantime waits only briefly.
"""

STATE_BYTES = 160
"""Approximate bytes of a ledger's state in the log, without its notes."""

STATES_PER_BATCH = 1000
"""States appended in one batch."""

COPIES_LOOKED_AT_MAX = 64
"""Maximum number of frames with the same first entry that are searched for a copy."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of one run. `segments_kept`: mostly dead segments that were kept because parts of them are unreadable."""

    segments_dropped: int = 0
    segments_kept: int = 0
    bytes_moved: int = 0
    bytes_freed: int = 0

    def plus(self, other: CompactionResult) -> CompactionResult:
        return CompactionResult(
            *(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A segment that accepts no further records, and whose records are all in the index."""

    number: int
    size: int
    usage: Usage

    @property
    def live_ratio(self) -> float:
        return (self.usage.frame_bytes + STATE_BYTES * self.usage.states) / max(1, self.size)


class Compactor:
    """Compacts the log of one bookie. Callers must hold the upkeep lock."""

    def __init__(self, bookie: Bookie, pace: RateLimit) -> None:
        self._bookie = bookie
        self._pace = pace
        self._owners_of_dead: set[int] = set()

    async def compact(self, live_ratio_max: float) -> CompactionResult:
        """Deletes segments without live bytes, then empties other segments whose live share is below `live_ratio_max`.

        Raises DiskIsFull if the copies do not fit; segments deleted before the error have already freed their space.
        """
        sealed = sorted(await in_thread(self._sealed), key=lambda one: one.live_ratio)
        done = await self._delete([one for one in sealed if one.usage == NOTHING])
        for one in sealed:
            if one.usage != NOTHING and one.live_ratio < live_ratio_max > await self._true_ratio(one):
                done = done.plus(await self.empty(one.number))
        return done

    async def _true_ratio(self, one: _Sealed) -> float:
        """Returns the live share including the ledgers' notes, each of which is about as long as its ledger's custom
        metadata."""
        ledger_ids = await in_thread(_with_states, self._bookie, one.number)
        note_bytes = await in_thread(self._bookie.index.notes.bytes_of, ledger_ids)
        return one.live_ratio + note_bytes / max(1, one.size)

    async def empty_all(self, numbers: Iterable[int]) -> CompactionResult:
        """Empties those of the given segments that exist and are sealed, whatever their live share."""
        done = CompactionResult()
        sealed = {one.number for one in await in_thread(self._sealed)}
        for number in sorted(sealed.intersection(numbers)):
            done = done.plus(await self.empty(number))
        return done

    async def empty(self, segment: int) -> CompactionResult:
        """Moves the segment's live frames and states, and deletes the segment unless parts of it cannot be read."""
        moved = await self._move_frames(segment)
        await self._bookie.checkpoint()
        if not await in_thread(self._index_is_whole):
            return CompactionResult(segments_kept=1, bytes_moved=moved)
        (now,) = [one for one in await in_thread(self._sealed) if one.number == segment]
        if now.usage.frame_bytes:
            log.error("%s contains frames that cannot be moved", segment_files.name_of(segment))
            return CompactionResult(segments_kept=1, bytes_moved=moved)
        await self._move_states(segment)
        return (await self._delete([now])).plus(CompactionResult(bytes_moved=moved))

    def _sealed(self) -> list[_Sealed]:
        bookie = self._bookie
        end = bookie.index.checkpoint_position >> 32
        usage = bookie.index.usage.totals()
        return [
            _Sealed(number, segment_files.size_of(bookie.disk, number), usage.get(number, NOTHING))
            for number in segment_files.numbers(bookie.disk)
            if number < end
        ]

    # --- frames -----------------------------------------------------------------------------

    async def _move_frames(self, segment: int) -> int:
        """Copies every readable live frame to the log's tail; returns the number of bytes copied."""
        moved = 0
        self._owners_of_dead.clear()
        batches = self._batches(segment)
        while (batch := await in_thread(next, batches, None)) is not None:
            size = sum(found.header.record_bytes for found, _ in batch)
            await self._pace.keep(size)
            await self._bookie.intake.room()
            await self._move(batch)
            moved += size
        return moved

    def _batches(self, segment: int) -> Iterator[list[tuple[Found, FrameLocation]]]:
        """Yields the segment's live frames, about BATCH_BYTES of the segment at a time."""
        batch: list[tuple[Found, FrameLocation]] = []
        size = 0
        for found in walk(self._bookie.disk, segment):
            place = _place(found) if isinstance(found, Found) else None
            if place is not None and isinstance(found, Found):
                batch.append((found, place))
                size += place.size
            if size >= BATCH_BYTES:
                yield self._alive(batch)
                batch, size = [], 0
        yield self._alive(batch)

    def _alive(self, batch: list[tuple[Found, FrameLocation]]) -> list[tuple[Found, FrameLocation]]:
        frames = [(found.record.ledger_id, place) for found, place in batch]
        alive = self._bookie.index.still_points_to(frames)
        self._owners_of_dead.update(n for (n, _), is_alive in zip(frames, alive, strict=True) if not is_alive)
        return [one for one, is_alive in zip(batch, alive, strict=True) if is_alive]

    def _index_is_whole(self) -> bool:
        """Returns whether the index has lost no frames of the ledgers whose frames in the segment seem dead. If it has
        lost some, frames that seem dead may be live."""
        index = self._bookie.index
        for ledger_id in sorted(self._owners_of_dead):
            if index.ledger(ledger_id) is not None and not index.is_whole(ledger_id):
                log.error(
                    "the index has lost frames of ledger %d: stop the bookie, and rebuild the index",
                    ledger_id,
                    extra={"ledger": ledger_id},
                )
                return False
        return True

    async def _move(self, batch: Sequence[tuple[Found, FrameLocation]]) -> None:
        """Copies these frames; the next checkpoint points only to the copies."""
        await self._bookie.store(await in_thread(self._copies, batch))
        for found, place in batch:
            self._bookie.index.remove(found.record.ledger_id, place)

    def _copies(self, batch: Sequence[tuple[Found, FrameLocation]]) -> list[BookieLogRecord]:
        # Frames that an interrupted run has already copied need no second copy.
        return [
            found.record._replace(recovery=False, note=NO_NOTE)  # the note is rewritten with the state
            for found, place in batch
            if not self._has_copy(found, place)
        ]

    def _has_copy(self, found: Found, place: FrameLocation) -> bool:
        """Returns whether the index has an intact copy of the frame at a later position in the log."""
        bookie, first = self._bookie, place.first_entry
        others = bookie.index.holding(found.record.ledger_id, first, first, (), COPIES_LOOKED_AT_MAX)
        for other in others:
            if other.position > place.position and other == place._replace(position=other.position):
                copy = read_record(bookie.files.get(other.position >> 32), other.position, other.size)
                if isinstance(copy, Found) and _say_the_same(copy.record, found.record):
                    return True
        return False

    # --- the end of a segment ---------------------------------------------------------------

    async def _move_states(self, segment: int) -> None:
        await write_states_anew(self._bookie, segment)

    async def _delete(self, empty: Sequence[_Sealed]) -> CompactionResult:
        """Deletes segments that the index no longer points into, and whose states were rewritten."""
        if not empty:
            return CompactionResult()
        numbers = {one.number for one in empty}
        kept = await in_thread(self._segments_that_should_be) - numbers
        await self._bookie.store([manifest.to_record(kept)])
        await self._bookie.remove_segments(numbers)
        freed = sum(one.size for one in empty)
        log.info("deleted %d segments, %d MiB", len(empty), freed >> 20)
        return CompactionResult(segments_dropped=len(empty), bytes_freed=freed)

    def _segments_that_should_be(self) -> set[int]:
        """Returns the segments on disk and those that the index points into, because a lost segment must not count as
        dropped (rule R6)."""
        return {*segment_files.numbers(self._bookie.disk), *self._bookie.index.usage.totals()}


async def write_states_anew(bookie: Bookie, segment: int) -> int:
    """Durably rewrites the states and notes of all ledgers that have states or notes in the segment; returns the number
    of ledgers."""
    ledger_ids = await in_thread(_with_states, bookie, segment)
    batch: list[BookieLogRecord] = []
    size = 0
    for ledger_id in ledger_ids:
        for record in state_records(bookie, ledger_id):
            batch.append(record)
            size += record_bytes(record)
        if size > BATCH_BYTES or len(batch) >= STATES_PER_BATCH:
            await bookie.store(batch)
            batch, size = [], 0
    await bookie.store(batch)
    return len(ledger_ids)


def _with_states(bookie: Bookie, segment: int) -> list[int]:
    return [ledger_id for ledger_id, held in bookie.index.usage.of(segment).items() if held.states]


def _say_the_same(one: BookieLogRecord, other: BookieLogRecord) -> bool:
    return (one.columns, one.last_add_confirmed) == (other.columns, other.last_add_confirmed)


def state_records(bookie: Bookie, ledger_id: int) -> list[BookieLogRecord]:
    """Returns the records of a ledger's entire state: one for each note of its fragments, and at least one."""
    state = state_record(bookie.states.peek(ledger_id))
    return [state._replace(note=note) for note in bookie.index.notes.of(ledger_id).values()] or [state]


def _place(found: Found) -> FrameLocation | None:
    if found.record.ledger_id == NO_LEDGER:
        return None
    return place_of_frame(found.record.columns, found.position, found.header.record_bytes)
