"""Reads a log, segment by segment; does not fence the writer, and returns only confirmed records."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing

from metadata.errors import MetadataError
from metadata.records.logs.segment import Segment

from ..entry import check_timeout
from ..errors import LedgerError, LogTruncated, NoSuchEntry, NoSuchLedger
from ..reading.read_handle import ReadHandle
from ..tasks import end_tasks
from .errors import NoSuchPosition
from .known_end import CATCH_UP_SECONDS_MAX, KnownEnd
from .log_chain import LogChain, check_not_restored
from .log_segment_ledgers import LogSegmentLedgers, missing_ledger_error, time_of
from .record_batch import RecordBatch, decode
from .segment_pages import segment_at, segment_at_time

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Interval at which a waiting reader reads the log's record again even if its watch reports no change, because a watch
may be lost."""

LATE_SECONDS = 60.0
"""How long a log may have no segment at a reader's position before a warning is logged."""


class RecordWatch:
    """One reader's watch on the log's record. Watching begins with the first wait; the reader closes the watch."""

    def __init__(self, chain: LogChain) -> None:
        self._chain = chain
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._waits_since: float | None = None
        self._waits_at = -1

    async def changed(self, seconds_max: float | None, position: int) -> bool:
        """Waits until the record may have changed; `position` is where the reader is waiting. Returns False if the
        timeout expires first."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
        self._warn_if_late(position)
        seconds = LOOK_SECONDS if seconds_max is None else min(seconds_max, LOOK_SECONDS)
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return seconds_max is None or seconds_max > seconds
        return True

    async def close(self) -> None:
        if self._following is not None:
            await end_tasks([self._following])

    async def _follow(self) -> None:
        record, version = self._chain.record, self._chain.found.version
        changes = self._chain.logs.watch(record.identity, after_revision=version)
        try:
            async with aclosing(changes) as versions:
                async for _ in versions:
                    self._changed.set()  # only a signal: the reader reads the record itself
        except MetadataError as error:
            log.info(
                "the record of log %r is now read every %g s instead of being watched: %s",
                record.name,
                LOOK_SECONDS,
                error,
            )

    def _warn_if_late(self, position: int) -> None:
        now = asyncio.get_running_loop().time()
        if position != self._waits_at or self._waits_since is None:
            self._waits_at, self._waits_since = position, now
        elif now - self._waits_since > LATE_SECONDS:
            self._waits_since = now
            line = "log %r has had no segment from position %d on for %g s: it has no writer, or its writer hangs"
            log.warning(line, self._chain.record.name, position, LATE_SECONDS)


class LogSegmentReader:
    """A segment, with a reader of its ledger. Returns only confirmed records."""

    def __init__(self, segment: Segment, reader: ReadHandle, known_end: int) -> None:
        """`known_end`: the log's end, as known before the ledger's record was read. If that record shows an open
        ledger, nothing in a later segment had been confirmed by then (rule L2), so `known_end` is not past this
        segment."""
        self.segment = segment
        self._reader = reader
        # A fork shares a ledger up to a confirmed position; the ledger may continue past that position, and may still
        # be open (rule L13).
        reader.is_confirmed(self._entry(segment.end_position or known_end) - 1)

    @property
    def end(self) -> int:
        """The position after the last record that is known to be confirmed."""
        confirmed = self.segment.first_position + self._reader.last_add_confirmed + 1
        return confirmed if self.segment.end_position is None else min(confirmed, self.segment.end_position)

    @property
    def is_closed(self) -> bool:
        """Whether the segment's end is final."""
        return self.segment.is_ended or self._reader.is_closed

    async def batches(self, start: int, stop: int) -> AsyncGenerator[RecordBatch, None]:
        """Yields the records from `start` up to but not including `stop`, or to the segment's end if that is
        earlier."""
        last = min(stop, self.end) - 1
        async with aclosing(self._reader.pages(self._entry(start), self._entry(last))) as pages:
            async for columns in pages:
                yield decode(columns, segment_start=self.segment.first_position)

    async def tail(self, start: int, timeout: float | None) -> AsyncGenerator[RecordBatch, None]:
        """Yields records as they are confirmed, until the ledger is closed or no new record has arrived for `timeout`
        seconds."""
        if self.segment.is_ended:
            async with aclosing(self.batches(start, self.end)) as batches:
                async for batch in batches:
                    yield batch
            return
        async with aclosing(self._reader.tail_pages(self._entry(start), timeout=timeout)) as pages:
            async for columns in pages:
                yield decode(columns, segment_start=self.segment.first_position)

    async def position_at(self, time_us: int, first_position: int) -> int:
        """Returns the position of the first record, from `first_position` on, that has this time or a later one, or the
        segment's end if there is none."""
        low, high = max(self.segment.first_position, first_position), self.end
        while low < high:
            middle = (low + high) // 2
            if await time_of(self._reader, self.segment, middle) < time_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, position: int) -> int:
        return position - self.segment.first_position


LOOKS_MAX = 20
"""Maximum number of attempts to open a segment; another attempt is made only if the segment was truncated, or dropped
as empty, while being opened."""


class LogReader:
    """Reads one log. For each position, looks up the one segment that holds it."""

    def __init__(self, chain: LogChain, ledgers: LogSegmentLedgers, known: KnownEnd) -> None:
        self._chain = chain
        self._known = known
        self._ledgers = ledgers

    async def end(self) -> int:
        """Returns the position after the last confirmed record, which is never before the end that the client already
        knew."""
        for _ in range(LOOKS_MAX):
            record = await self._chain.refresh()
            if record.end_position is not None:
                return self._known.advance_to(record.end_position)
            assert record.last is not None
            if await self._open(record.last) is not None:
                return self._known.advance_to(record.first_position)
        raise self._keeps_changing()

    async def check_reaches(self, position: int) -> None:
        """Raises NoSuchPosition if the log ends before this position.

        Waits for a position that another client may have confirmed and that the bookies do not know yet (rule L4).
        """
        if position > self._known.position:
            await self.end()
        # If the record states the end, no writer has confirmed anything past it.
        may_grow = self._chain.record.end_position is None
        if position > self._known.position and may_grow:
            try:
                async with aclosing(self.tail(position - 1, CATCH_UP_SECONDS_MAX)) as batches:
                    async for _ in batches:
                        break
            except LedgerError:
                if position > self._known.position:  # otherwise the position exists but cannot be read
                    raise
            else:
                await self.end()
        if not 0 <= position <= self._known.position:
            raise self._not_there(position)

    def _not_there(self, position: int) -> NoSuchPosition:
        return NoSuchPosition(self._chain.record.name, position, self._known.position)

    async def batches(self, start: int | None, stop: int | None) -> AsyncGenerator[RecordBatch, None]:
        """Yields the confirmed records from `start` up to but not including `stop`; by default from the oldest one to
        the end."""
        record = await self._chain.refresh()
        position = record.first_position if start is None else start
        self._check_left(position)
        stop = max(position, await self.end()) if stop is None else stop
        if position > stop:
            raise ValueError(f"stop {stop} is before start {position}: a log cannot be read backwards")
        await self.check_reaches(stop)
        while position < stop:
            opened = await self._opened_at(position)
            if opened is None:  # an operator has accepted the loss of records that this client had seen
                self._known.position = position
                raise self._not_there(stop)
            try:
                async with aclosing(opened.batches(position, stop)) as batches:
                    async for batch in batches:
                        position = self._known.advance_past(batch)
                        yield batch
            except LedgerError:
                await self._check_left_now(position)
                raise

    async def tail(self, start: int | None, timeout: float | None) -> AsyncGenerator[RecordBatch, None]:
        """Yields records from `start` on as they are confirmed; ends when no new record has arrived for `timeout`
        seconds."""
        patience = _Patience(timeout)
        watch = RecordWatch(self._chain)
        try:
            await self._chain.refresh()
            position = self._chain.record.first_position if start is None else start
            while True:
                opened = await self._opened_at(position)
                if opened is None:
                    check_not_restored(self._chain.record)
                    if not await watch.changed(patience.seconds_left, position):
                        return
                    continue
                try:
                    async with aclosing(opened.tail(position, patience.seconds_left)) as batches:
                        async for batch in batches:
                            position = self._known.advance_past(batch)
                            yield batch
                            self._check_left(position)
                            patience.begin()
                except NoSuchEntry:  # the segment ended before this position; a later segment will hold it
                    if opened.segment.is_ended or not opened.is_closed:
                        raise
                except NoSuchLedger:  # the segment ended empty and was dropped before its reader noticed
                    await self._check_dropped(opened.segment)
                    continue
                except LedgerError:
                    self._known.advance_to(opened.end)
                    await self._check_left_now(position)
                    raise
                if not opened.is_closed:
                    return
        finally:
            await watch.close()

    async def position_at(self, time_us: int) -> int:
        """Returns the position of the first record that was appended at this time or later, or the log's end if there
        is none."""
        for _ in range(LOOKS_MAX):
            record = await self._chain.refresh()
            segment = await segment_at_time(self._chain, time_us)
            if segment is None:
                return await self.end()
            opened = await self._open(segment)
            if opened is not None:
                return max(record.first_position, await opened.position_at(time_us, record.first_position))
        raise self._keeps_changing()

    def _keeps_changing(self) -> LedgerError:
        return LedgerError(f"the last segment of log {self._chain.record.name!r} keeps changing; try again")

    def _check_left(self, position: int) -> None:
        """Raises LogTruncated for a truncated position, NoSuchPosition below 0."""
        record = self._chain.record
        if position < 0:
            raise self._not_there(position)
        if position < record.first_position:
            raise LogTruncated(record.name, position, record.first_position)

    async def _check_left_now(self, position: int) -> None:
        """Raises LogTruncated if the position was truncated while it was being read. Called after any error in reading
        the segment, so that a truncation is reported as LogTruncated."""
        await self._chain.refresh()
        self._check_left(position)

    async def _opened_at(self, position: int) -> LogSegmentReader | None:
        """Opens the segment that holds this position; returns None if there is no such segment yet. Raises
        LogTruncated."""
        for _ in range(LOOKS_MAX):
            record = await self._chain.refresh()
            self._check_left(position)
            segment = await segment_at(self._chain, position)
            if segment is None:
                if record.last is None or position >= record.last.first_position:
                    return None
                await self._chain.refresh()
                self._check_left(position)  # raises if the position has just been truncated
                raise LedgerError(f"log {record.name!r} has no segment that holds position {position}")
            opened = await self._open(segment)
            if opened is not None:
                return self._taken(segment, opened, position)
        raise self._keeps_changing()

    async def _open(self, segment: Segment) -> LogSegmentReader | None:
        """Opens a segment's ledger; returns None if the log has truncated the segment, or has dropped it as empty."""
        known = self._known.position
        try:
            opened = LogSegmentReader(segment, await self._ledgers.open(segment), known)
        except NoSuchLedger:
            await self._check_dropped(segment)
            return None
        self._known.advance_to(opened.end)
        return opened

    async def _check_dropped(self, segment: Segment) -> None:
        """Checks why a ledger is missing: raises NoSuchLedger if the log still needs it."""
        record = await self._chain.refresh()
        now = await segment_at(self._chain, segment.first_position)
        if now is None or now.ledger_id != segment.ledger_id:
            return
        if now.end_position is None or now.end_position > record.first_position:
            raise missing_ledger_error(record, now) from None

    def _taken(self, segment: Segment, opened: LogSegmentReader, position: int) -> LogSegmentReader | None:
        if not opened.is_closed or position < opened.end:
            return opened
        if segment.is_ended:
            raise LedgerError(
                f"ledger {segment.ledger_id} ends before position {opened.end} of log {self._chain.record.name!r}, "
                f"although the log's record states that this segment ends before position {segment.end_position}"
            )
        return None  # the ledger has just been closed, and the log's record does not show that yet


class _Patience:
    """The time that a reader may still wait for new records."""

    def __init__(self, timeout: float | None) -> None:
        check_timeout(timeout)
        self._seconds = math.inf if timeout is None else timeout
        self.begin()

    def begin(self) -> None:
        """Restarts the time limit, because new records have arrived."""
        self._until = asyncio.get_running_loop().time() + self._seconds

    @property
    def seconds_left(self) -> float | None:
        """Seconds left; None for no limit."""
        left = self._until - asyncio.get_running_loop().time()
        return None if math.isinf(left) else max(0.0, left)
