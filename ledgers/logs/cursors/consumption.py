"""Reading a log at least once, from a cursor that one consumer has at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypedDict

from metadata import keys
from metadata.records.coordination.candidates import Candidate

from ...elections.campaign import LEASE_SECONDS, campaign, check_lease, this_process
from ...elections.place import Place
from ...entry import check_timeout
from ..record_batch import Record, RecordBatch
from .cursor import COMMIT_SECONDS, Cursor
from .cursor_calls import CursorCalls
from .cursor_state import CursorState
from .errors import CursorMoved, CursorTakenOver
from .where import Where

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How soon a consumer that waits for records notices that somebody has moved its cursor."""


class ConsumeOptions(TypedDict, total=False):
    """What `Log.consume` takes beside the name and the start.

    `timeout`: ends once nothing was new for so many seconds; without one it goes on for ever. `consumer`: for people;
    the default is host and process. `commit_seconds`: how often what was used is written, 1 by default.
    `commits_at_close`: whether that is done at the end, too. `lease_seconds`: how long nobody has the cursor of a
    consumer that has died.
    """

    timeout: float | None
    consumer: str | None
    commit_seconds: float
    commits_at_close: bool
    lease_seconds: float


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
    ) -> None:
        check_timeout(timeout)
        self._calls = calls
        self._name = keys.check_name(name)
        self._start: Where = start
        self._timeout = timeout
        self._consumer = consumer or this_process()
        self._commit_seconds = commit_seconds
        self._commits_at_close = commits_at_close
        self._lease_seconds = check_lease(lease_seconds)
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
            batches = self._calls.log.tail_batches(position, timeout=max(0.0, min(left, LOOK_SECONDS)))
            async with aclosing(batches) as batches:
                async for batch in batches:
                    cursor.has_read(batch.positions[-1] + 1)
                    self._measure(batch.positions[0], batch.times[0])
                    yield batch
                    quiet_since, position = loop.time(), batch.positions[-1] + 1
                    if place.is_lost or cursor.failure is not None:
                        break
            generation = cursor.generation
            moved_to = await self._refreshed(cursor)
            if cursor.generation != generation:
                position, quiet_since = moved_to, loop.time()
            elif self._timeout is not None and loop.time() - quiet_since >= self._timeout:
                return
            elif loop.time() - quiet_since >= LOOK_SECONDS:
                self._measure(position, None)

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
