"""Reads a log with at-least-once delivery, from a cursor that only one consumer holds at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Literal, TypedDict

from metadata import keys
from metadata.records.coordination.candidates import Candidate

from ...elections.campaign import LEASE_SECONDS, campaign, check_lease, this_process
from ...elections.place import Place
from ...entry import check_timeout
from ...errors import LogTruncated
from ...tasks import beside
from ..errors import CursorMoved, CursorTakenOver
from ..record_batch import Record, RecordBatch
from .cursor import COMMIT_SECONDS, Cursor
from .cursor_calls import CursorCalls, CursorState
from .poll_watch import POLL_SECONDS_MAX, PollWatch
from .start_position import Where

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""The maximum time until a consumer that is waiting for records notices that its cursor was moved."""

OnTruncated = Literal["raise", "oldest"]
"""What to do if records were truncated before they were used: raise LogTruncated, or continue at the oldest remaining
record."""


class CommonOptions(TypedDict, total=False):
    """Options shared by consumers of a log and members of a group."""

    timeout: float | None
    """Seconds without a new record after which the iteration ends; None, the default, means that it never ends."""
    commit_seconds: float
    """Interval, in seconds, at which used records are committed; 1 by default."""
    lease_seconds: float
    """How long, in seconds, a cursor remains without a consumer after its consumer has died; 10 by default."""
    poll_seconds_max: float | None
    """How long, in seconds, the application may spend on one record; 300 by default, None for no limit. A consumer that
    exceeds the limit loses its cursors to other consumers, and queues up again when it asks for its next record."""
    on_truncated: OnTruncated
    """What to do if records at the cursor's position were truncated: "raise" LogTruncated, the default, or continue at
    the "oldest" remaining record."""


class ConsumeOptions(CommonOptions, total=False):
    """Options of `Log.consume`, in addition to the name and the start."""

    consumer: str | None
    """A human-readable label; host and process by default."""
    commits_at_close: bool
    """Whether used records are also committed when the iteration ends; True by default."""


class Consumption:
    """One consumer of a log. It holds the cursor while it is first in the cursor's queue, and waits otherwise."""

    def __init__(
        self,
        calls: CursorCalls,
        name: str,
        start: Where,
        *,
        timeout: float | None = None,
        consumer: str | None = None,
        commit_seconds: float = COMMIT_SECONDS,
        commits_at_close: bool = True,
        lease_seconds: float = LEASE_SECONDS,
        poll_seconds_max: float | None = POLL_SECONDS_MAX,
        on_truncated: OnTruncated = "raise",
    ) -> None:
        check_timeout(timeout)
        if on_truncated not in ("raise", "oldest"):
            raise ValueError(f"on_truncated must be 'raise' or 'oldest', not {on_truncated!r}")
        self._calls = calls
        self._name = keys.check_name(name)
        self._start: Where = start
        self._timeout = timeout
        self._consumer = consumer or this_process()
        self._commit_seconds = commit_seconds
        self._commits_at_close = commits_at_close
        self._lease_seconds = check_lease(lease_seconds)
        self._on_truncated = on_truncated
        self._polls = PollWatch(poll_seconds_max)
        self._place: Place | None = None
        self.cursor: Cursor | None = None

    @property
    def is_over(self) -> bool:
        """Whether the rest of the last batch is unusable, because another consumer may hold the cursor or the cursor
        was moved."""
        assert self._place is not None and self.cursor is not None
        return self._place.lost.is_set() or self.cursor.failure is not None

    async def records(self) -> AsyncGenerator[Record, None]:
        """Yields records one by one. A record counts as used when the caller asks for the next one."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for record in batch.records():
                    if self.is_over:
                        break
                    yield record
                    assert self.cursor is not None
                    if self.cursor.note(record.position + 1):
                        self.cursor.start_writing()

    async def batches(self) -> AsyncGenerator[RecordBatch, None]:
        """While this consumer holds the cursor, yields records from the cursor's position on; the caller notes used
        records with `cursor.note`.

        Ends when no new record has arrived within the timeout.
        """
        state = await self._calls.state(self._name, self._start)

        async def begin(candidate: Candidate) -> int:
            await state.refresh()
            return (await state.change(lambda record: record.taken_over(candidate.name))).epoch

        led, cluster = keys.cursor(self._calls.identity, self._name), self._calls.cluster
        while True:
            standing = campaign(cluster, led, self._consumer, self._lease_seconds, begin, None)
            async with (
                standing as (self._place, epoch),
                self._cursor_of(state, epoch) as self.cursor,
                beside(self._unless_it_hangs(self._place)),
                aclosing(self._while_it_has(self._place, self.cursor)) as batches,
            ):
                async for batch in batches:
                    yield batch
                if not self._place.is_lost:
                    return
            line = "consumer %s has lost cursor %r and is queuing for it again: %s"
            log.warning(line, self._consumer, self._name, self._place.why_lost)

    async def _while_it_has(self, place: Place, cursor: Cursor) -> AsyncGenerator[RecordBatch, None]:
        """Yields batches until this consumer loses its place in the cursor's queue, or no new record has arrived within
        the timeout."""
        loop = asyncio.get_running_loop()
        quiet_since, position = loop.time(), await cursor.refresh()
        while not place.is_lost:
            left = LOOK_SECONDS if self._timeout is None else quiet_since + self._timeout - loop.time()
            batches = self._calls.log.tail_committed(position, timeout=max(0.0, min(left, LOOK_SECONDS)))
            try:
                async with aclosing(batches) as batches:
                    async for batch in batches:
                        self._measure(batch.positions[0], batch.times[0])
                        self._polls.cursor = cursor
                        yield batch
                        self._polls.cursor = None
                        quiet_since, position = loop.time(), batch.positions[-1] + 1
                        if place.is_lost or cursor.failure is not None:
                            break
            except LogTruncated as error:
                position = self._oldest_left(cursor, error)
                continue
            generation = cursor.generation
            moved_to = await self._refreshed(cursor)
            if cursor.generation != generation:
                position, quiet_since = moved_to, loop.time()
            elif self._timeout is not None and loop.time() - quiet_since >= self._timeout:
                return
            elif loop.time() - quiet_since >= LOOK_SECONDS:
                self._measure(position, None)

    def _oldest_left(self, cursor: Cursor, error: LogTruncated) -> int:
        """Returns the position of the oldest remaining record, at which reading continues after a truncation. With
        `on_truncated="raise"`, raises the error instead. Counts and logs the missed records in both cases."""
        missed = error.first_position - error.position
        line = "consumer %s of cursor %r has missed %d records: %s"
        log.warning(line, self._consumer, self._name, missed, error)
        if (metrics := self._calls.cluster.log_metrics) is not None:
            metrics.missed_records.labels(error.name, self._name, self._on_truncated).inc(missed)
        if self._on_truncated == "raise":
            raise error
        if cursor.note(error.first_position):  # so that the next consumer does not count the same records
            cursor.start_writing()
        return error.first_position

    async def _unless_it_hangs(self, place: Place) -> None:
        """Gives up the consumer's place in the cursor's queue once the application has been using one record for too
        long."""
        await self._polls.until_exceeded()
        why = f"one record was used for more than {self._polls.seconds_max:g} s (poll_seconds_max)"
        log.warning("consumer %s releases cursor %r: %s", self._consumer, self._name, why)
        await place.leave(why)

    def _measure(self, position: int, time_us: int | None) -> None:
        if (metrics := self._calls.cluster.log_metrics) is not None:
            metrics.consumes(self._calls.log.name, self._name, position, time_us)

    async def _refreshed(self, cursor: Cursor) -> int:
        """Returns the cursor's current position, even if a seek or another consumer has made commits fail. Raises any
        other error that prevents commits."""
        if cursor.failure is not None and not isinstance(cursor.failure, CursorMoved | CursorTakenOver):
            raise cursor.failure
        return await cursor.refresh()

    @asynccontextmanager
    async def _cursor_of(self, state: CursorState, epoch: int) -> AsyncIterator[Cursor]:
        cursor = Cursor(
            self._calls.cluster,
            self._calls.log,
            state,
            commit_seconds=self._commit_seconds,
            commits_at_close=self._commits_at_close,
            epoch=epoch,
        )
        try:
            yield cursor
        finally:
            if (metrics := self._calls.cluster.log_metrics) is not None:
                metrics.consumes_no_more(self._calls.log.name, self._name)
            try:
                await cursor.close()
            except (CursorMoved, CursorTakenOver) as error:
                log.info("the last records of consumer %s will be delivered again: %s", self._consumer, error)
