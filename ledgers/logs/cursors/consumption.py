"""Reading a log at least once, from a cursor that one consumer has at a time."""

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
from ..record_batch import Record, RecordBatch
from .cursor import COMMIT_SECONDS, Cursor
from .cursor_calls import CursorCalls
from .cursor_state import CursorState
from .errors import CursorMoved, CursorTakenOver
from .poll_watch import POLL_SECONDS_MAX, PollWatch
from .where import Where

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How soon a consumer that waits for records notices that somebody has moved its cursor."""

OnTruncated = Literal["raise", "oldest"]
"""What is done where records were given up before they were used: raise LogTruncated, or go on at the oldest left."""


class CommonOptions(TypedDict, total=False):
    """What consumers of a log and members of a group may choose.

    `timeout`: ends once nothing was new for so many seconds; without one it goes on for ever. `commit_seconds`: how
    often what was used is written, 1 by default. `lease_seconds`: how long nobody has the cursor of a consumer that has
    died. `poll_seconds_max`: how long one record may be used, 300 by default; a consumer that takes longer gives what
    it has up to others, and queues up again when it asks for its next record; None for no bound. `on_truncated`: what
    is done where the cursor is below what is left, "raise" LogTruncated, the default, or go on at the "oldest" record.
    """

    timeout: float | None
    commit_seconds: float
    lease_seconds: float
    poll_seconds_max: float | None
    on_truncated: OnTruncated


class ConsumeOptions(CommonOptions, total=False):
    """What `Log.consume` takes beside the name and the start: `CommonOptions`, and these.

    `consumer`: for people; the default is host and process. `commits_at_close`: whether what was used is written at the
    end, too.
    """

    consumer: str | None
    commits_at_close: bool


class Consumption:
    """One consumer's reading. It has the cursor while it is first in the cursor's queue, and waits otherwise."""

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
            raise ValueError(f"on_truncated is 'raise' or 'oldest', not {on_truncated!r}")
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
        """Whether no more of the batch that was yielded last may be used: another consumer may have it, or the cursor
        was moved.
        """
        assert self._place is not None and self.cursor is not None
        return self._place.lost.is_set() or self.cursor.failure is not None

    async def records(self) -> AsyncGenerator[Record, None]:
        """Yields records one by one; one counts as used when the next one is asked for."""
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
        """Yields records from where the cursor stands, whenever it has the cursor; `cursor.note` tells what was used.

        Ends where nothing was new for the timeout.
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
            line = "consumer %s of cursor %r has lost it, and queues up again: %s"
            log.warning(line, self._consumer, self._name, self._place.why_lost)

    async def _while_it_has(self, place: Place, cursor: Cursor) -> AsyncGenerator[RecordBatch, None]:
        """Yields batches until the place is lost, or nothing was new for the timeout."""
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
        """Where to go on; what was missed is counted and reported, also where it raises."""
        missed = error.first_position - error.position
        line = "consumer %s of cursor %r has missed %d records: %s"
        log.warning(line, self._consumer, self._name, missed, error)
        if (metrics := self._calls.cluster.log_metrics) is not None:
            metrics.missed_records.labels(error.name, self._name, self._on_truncated).inc(missed)
        if self._on_truncated == "raise":
            raise error
        if cursor.note(error.first_position):  # so that the next consumer does not miss them again
            cursor.start_writing()
        return error.first_position

    async def _unless_it_hangs(self, place: Place) -> None:
        """Gives the place up once the application has used one record for too long."""
        await self._polls.until_exceeded()
        why = f"one record was used for more than {self._polls.seconds_max:g} s (poll_seconds_max)"
        log.warning("consumer %s of cursor %r gives it up: %s", self._consumer, self._name, why)
        await place.leave(why)

    def _measure(self, position: int, time_us: int | None) -> None:
        if (metrics := self._calls.cluster.log_metrics) is not None:
            metrics.consumes(self._calls.log.name, self._name, position, time_us)

    async def _refreshed(self, cursor: Cursor) -> int:
        """Where the cursor stands, also after a seek. Raises what else keeps it from being committed."""
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
                log.info("what consumer %s used last is used again: %s", self._consumer, error)
