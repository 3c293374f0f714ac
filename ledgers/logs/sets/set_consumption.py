"""Consuming a set of logs: the members of a group share its logs, and each reads those that it has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple, Protocol, TypedDict

from metadata import keys
from metadata.records.coordination.log_set_record import LogSetRecord

from ...cluster import Cluster
from ...elections.campaign import LEASE_SECONDS, check_lease, this_process
from ...tasks import end_tasks
from ..cursors.consumption import Consumption
from ..cursors.cursor import COMMIT_SECONDS
from ..cursors.where import Where
from ..log import Log
from ..record_batch import Record, RecordBatch
from .membership import Membership

log = logging.getLogger(__name__)

BEFORE_SECONDS = 0.5
"""How soon a member that waits for the log before a new one notices that it has been used."""


class SetRecord(NamedTuple):
    """A record of a set: the number of its log, and the record."""

    log: int
    record: Record


class GroupOptions(TypedDict, total=False):
    """What `LogSet.consume` takes beside the group.

    `timeout`: ends once nothing was new for so many seconds; without one it goes on for ever. `member`: for people; the
    default is host and process. `start`: where the cursors of a new group begin, "beginning" by default; logs that the
    set gets later are used from their beginning.
    `commit_seconds`: how often what was used is written, 1 by default. `lease_seconds`: how long nobody has the logs of
    a member that has died.
    """

    timeout: float | None
    member: str | None
    start: Where
    commit_seconds: float
    lease_seconds: float


class ConsumedSet(Protocol):
    """What of a set its consumers use."""

    @property
    def name(self) -> str: ...
    async def refresh(self) -> LogSetRecord: ...
    async def log(self, number: int) -> Log: ...


class Share:
    """One log that a member has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.consumption: Consumption | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_revoked = False
        self._is_cancelled = False
        self._is_in_use = False
        self._used = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether no more of its batch may be used."""
        return self.is_revoked or self.consumption is None or self.consumption.is_over

    def revoke(self, *, at_once: bool = False) -> None:
        """Another member is to have it, once the record in use is done with, or at once."""
        self.is_revoked = True
        if (at_once or not self._is_in_use) and not self._is_cancelled and self.task is not None:
            self._is_cancelled = True  # a second time would keep it from leaving its place
            self.task.cancel()

    async def offer(self, batch: RecordBatch, ready: asyncio.Queue[tuple[Share, RecordBatch]]) -> None:
        """Gives a batch to the application, and waits until it has been used."""
        self._used.clear()
        ready.put_nowait((self, batch))  # one of each log at a time
        await self._used.wait()

    def take(self) -> bool:
        """The application begins with what was offered; False where it may not any more."""
        self._is_in_use = not self.is_over
        return self._is_in_use

    def used(self) -> None:
        """The application is done with it."""
        self._is_in_use = False
        self._used.set()


class SetConsumption:
    """One member's reading."""

    def __init__(
        self,
        cluster: Cluster,
        log_set: ConsumedSet,
        group: str,
        *,
        timeout: float | None = None,
        member: str | None = None,
        start: Where = "beginning",
        commit_seconds: float = COMMIT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._set = log_set
        self._group = keys.check_name(group)
        self._timeout = timeout
        self._member = member or this_process()
        self._start = start
        self._commit_seconds = commit_seconds
        self._lease_seconds = check_lease(lease_seconds)
        self._membership = Membership(cluster, log_set.name, group, self._member, lease_seconds)
        self._shares: dict[int, Share] = {}
        self._ready: asyncio.Queue[tuple[Share, RecordBatch]] = asyncio.Queue()

    async def records(self) -> AsyncGenerator[SetRecord, None]:
        """Yields records one by one; one counts as used when the next one is asked for."""
        async with aclosing(self.batches()) as batches:
            async for share, batch in batches:
                for record in batch.records():
                    if share.is_over:
                        break
                    yield SetRecord(share.number, record)
                    assert share.consumption is not None and share.consumption.cursor is not None
                    if share.consumption.cursor.note(record.position + 1):
                        share.consumption.cursor.start_writing()

    async def batches(self) -> AsyncGenerator[tuple[Share, RecordBatch], None]:
        """Yields batches of the logs that it has, each with its share, by whose cursor is noted what was used."""
        keeping = asyncio.create_task(self._keep())
        try:
            while (found := await self._next(keeping)) is not None:
                share, batch = found
                try:
                    if share.take():
                        yield share, batch
                finally:
                    share.used()
        finally:
            await end_tasks([keeping])

    async def _next(self, keeping: asyncio.Task[None]) -> tuple[Share, RecordBatch] | None:
        """The next batch; None where nothing was new for the timeout. Raises what ended the membership."""
        getting = asyncio.ensure_future(self._ready.get())
        try:
            await asyncio.wait({getting, keeping}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            return getting.result() if getting.done() else None
        finally:
            await end_tasks([getting])

    # --- what it has ----------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Follows the logs that it is to have, whoever comes and goes."""
        try:
            await self._membership.keep(self._set.refresh, self._adopt, self._give_up)
        finally:
            await self._end_all()

    def _adopt(self, mine: set[int], record: LogSetRecord) -> list[asyncio.Task[None]]:
        """Follows these logs from now on, and no others. Raises what ended one of them."""
        for number, share in list(self._shares.items()):
            assert share.task is not None
            if share.task.done():
                del self._shares[number]
                if not share.task.cancelled():
                    share.task.result()
            elif number not in mine:
                share.revoke()
        for number in mine - set(self._shares):
            share = self._shares[number] = Share(number)
            share.task = asyncio.create_task(self._follow(share, record))
        return self._tasks()

    def _give_up(self) -> None:
        """Other members are to have all its logs; what ended one of them is raised by the next `_adopt`."""
        for share in self._shares.values():
            share.revoke()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [share.task for share in self._shares.values() if share.task is not None]

    async def _end_all(self) -> None:
        for share in self._shares.values():
            share.revoke(at_once=True)
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        self._shares.clear()

    async def _follow(self, share: Share, record: LogSetRecord) -> None:
        of = await self._set.log(share.number)
        await self._until_used(record.before(share.number))
        share.consumption = of.consumption(
            self._group,
            start=self._start_of(share.number),
            consumer=self._member,
            commit_seconds=self._commit_seconds,
            lease_seconds=self._lease_seconds,
        )
        async with aclosing(share.consumption.batches()) as batches:
            async for batch in batches:
                await share.offer(batch, self._ready)
                if share.is_revoked:
                    return

    def _start_of(self, number: int) -> Where:
        """Of a log that the set has got since the group began it misses nothing."""
        return self._start if number < self._membership.begun_with else "beginning"

    async def _until_used(self, before: tuple[int, int] | None) -> None:
        """Waits until the group has used the log that keys of a new log come from, up to where it ended then."""
        if before is None:
            return
        number, end = before
        start = self._start_of(number)
        async with await (await self._set.log(number)).cursor(self._group, start=start) as cursor:
            while True:
                if await cursor.refresh() >= end:
                    return
                await asyncio.sleep(BEFORE_SECONDS)
