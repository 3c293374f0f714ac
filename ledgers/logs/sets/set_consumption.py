"""Consumes a set of logs: the members of a group share the set's logs, and each member reads its own share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import NamedTuple, Protocol

from metadata import keys
from metadata.records.logs.log_set_record import LogSetRecord

from ...cluster import Cluster
from ...elections.campaign import LEASE_SECONDS, check_lease, this_process
from ...errors import LogTruncated
from ...tasks import beside
from ..cursors.consumption import CommonOptions, Consumption, OnTruncated
from ..cursors.cursor import COMMIT_SECONDS
from ..cursors.poll_watch import POLL_SECONDS_MAX, PollWatch
from ..cursors.start_position import Where
from ..log import Log
from ..record_batch import Record, RecordBatch
from .membership import Membership

log = logging.getLogger(__name__)

BEFORE_SECONDS = 0.5
"""Interval at which a member checks the group's cursor in a log while waiting for that cursor to move."""

TRUNCATED_SECONDS = 60.0
"""How long a member that has no timeout waits for any new record before it raises LogTruncated for one of its logs."""

TAKEN_OVER_SECONDS = 5.0
"""After the lease of a dead member expires, other members take over its logs within this time."""


class SetRecord(NamedTuple):
    """A record of a set, with the number of its log."""

    log: int
    """The number of the log in the set."""
    record: Record
    """The record."""


class GroupOptions(CommonOptions, total=False):
    """Options of `LogSet.consume`, in addition to the group.

    If, at a member's timeout, the group has unread records in a log and its cursor in that log does not move, the
    member waits for up to `lease_seconds` plus five seconds longer, because the member that held the log may have died.
    With `on_truncated="raise"`, a member uses its other logs, and raises LogTruncated once no new record has arrived
    for the timeout, or for a minute if there is no timeout.
    """

    member: str | None
    """A human-readable label; host and process by default."""
    start: Where
    """Where the cursors of a new group begin, "beginning" by default. Logs that are added to the set later are used
    from their beginning."""


class ConsumedSet(Protocol):
    """The part of `LogSet` that its consumers use."""

    @property
    def name(self) -> str: ...
    async def refresh(self) -> LogSetRecord: ...
    async def log(self, number: int) -> Log: ...


class AssignedLog:
    """One log that a member holds."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.consumption: Consumption | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_revoked = False
        self.truncated: LogTruncated | None = None
        self.used_end = 0
        self._is_cancelled = False
        self._is_in_use = False
        self._used = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the rest of the log's batch must not be used."""
        return self.is_revoked or self.consumption is None or self.consumption.is_over

    def revoke(self, *, at_once: bool = False) -> None:
        """Releases the log for another member: immediately with `at_once`, otherwise once the application has finished
        its current record."""
        self.is_revoked = True
        if (at_once or not self._is_in_use) and not self._is_cancelled and self.task is not None:
            self._is_cancelled = True  # a second cancellation would prevent the task from leaving its place
            self.task.cancel()

    async def offer(self, batch: RecordBatch, ready: asyncio.Queue[tuple[AssignedLog, RecordBatch]]) -> None:
        """Offers a batch to the application and waits until the application has used it."""
        self._used.clear()
        ready.put_nowait((self, batch))  # one batch of each log at a time
        await self._used.wait()
        self.used_end = batch.positions[-1] + 1

    def take(self) -> bool:
        """Notes that the application is beginning to use the offered batch; returns False if the batch must no longer
        be used."""
        self._is_in_use = not self.is_over
        return self._is_in_use

    def used(self) -> None:
        """Notes that the application has finished with the batch."""
        self._is_in_use = False
        self._used.set()


class SetConsumption:
    """One member's consumption of a set."""

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
        poll_seconds_max: float | None = POLL_SECONDS_MAX,
        on_truncated: OnTruncated = "raise",
    ) -> None:
        self._set = log_set
        self._group = keys.check_name(group)
        self._timeout = timeout
        self._member = member or this_process()
        self._start = start
        self._commit_seconds = commit_seconds
        self._lease_seconds = check_lease(lease_seconds)
        self._polls = PollWatch(poll_seconds_max)
        self._asked = asyncio.Event()
        self._on_truncated = on_truncated
        self._membership = Membership(cluster, log_set.name, group, self._member, lease_seconds)
        self._shares: dict[int, AssignedLog] = {}
        self._ready: asyncio.Queue[tuple[AssignedLog, RecordBatch]] = asyncio.Queue()

    async def records(self) -> AsyncGenerator[SetRecord, None]:
        """Yields records one by one. A record counts as used when the caller asks for the next one."""
        async with aclosing(self.batches()) as batches:
            async for share, batch in batches:
                for record in batch.records():
                    if share.is_over:
                        break
                    yield SetRecord(share.number, record)
                    assert share.consumption is not None and share.consumption.cursor is not None
                    if share.consumption.cursor.note(record.position + 1):
                        share.consumption.cursor.start_writing()

    async def batches(self) -> AsyncGenerator[tuple[AssignedLog, RecordBatch], None]:
        """Yields batches of the logs that the member holds, each with its AssignedLog. The caller must use the
        cursor of that log to note the records that it has used."""
        async with beside(self._keep()) as keeping:
            while (found := await self._next(keeping)) is not None:
                share, batch = found
                try:
                    if share.take():
                        assert share.consumption is not None
                        self._polls.cursor = share.consumption.cursor
                        self._asked.clear()
                        yield share, batch
                finally:
                    self._polls.cursor = None
                    self._asked.set()
                    share.used()

    async def _next(self, keeping: asyncio.Task[None]) -> tuple[AssignedLog, RecordBatch] | None:
        """Returns the next batch; None if no new record has arrived within the timeout. Raises the error that ended the
        membership."""
        while True:
            seconds = TRUNCATED_SECONDS if self._timeout is None else self._timeout
            found = await self._offered(seconds, keeping)
            if found is None and (self._timeout is not None or self._truncated is not None):
                found = await self._offered_late(keeping)
            if found is None and self._truncated is not None:
                raise self._truncated
            if found is not None or self._timeout is not None:
                return found

    async def _offered(
        self, seconds: float, keeping: asyncio.Task[None]
    ) -> tuple[AssignedLog, RecordBatch] | None:
        async with beside(self._ready.get()) as getting:
            await asyncio.wait({getting, keeping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            return getting.result() if getting.done() else None

    async def _offered_late(self, keeping: asyncio.Task[None]) -> tuple[AssignedLog, RecordBatch] | None:
        """Returns a batch that is offered after the timeout, if there is one. While the group has unread records in a
        log and its cursor in that log does not move, the member that held the log may have died, so this waits until
        that member's lease has expired."""
        now = asyncio.get_running_loop().time
        until = now() + self._lease_seconds + TAKEN_OVER_SECONDS
        unread = await self._unread(range((await self._set.refresh()).logs))
        while unread and now() < until:
            if (found := await self._offered(BEFORE_SECONDS, keeping)) is not None:
                return found
            stand = await self._unread(unread)
            unread = {number: at for number, at in stand.items() if at == unread[number]}
        return None

    async def _unread(self, numbers: Iterable[int]) -> dict[int, int]:
        """For each of these logs that has more records than this member has used, returns the group's position in the
        log."""
        unread = {}
        for number in numbers:
            share, of = self._shares.get(number) or AssignedLog(number), await self._set.log(number)
            cursor = dict([one async for one in of.cursors()]).get(self._group)
            if cursor is None or share.truncated is not None:
                continue  # no member has begun to read the log, or reading it would raise LogTruncated
            if max(cursor.position, share.used_end) < await of.end():
                unread[number] = cursor.position
        return unread

    @property
    def _truncated(self) -> LogTruncated | None:
        return next((one.truncated for one in self._shares.values() if one.truncated is not None), None)

    # --- the member's logs --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Follows the logs that the member is to hold, as members join and leave; holds no logs while the application
        hangs."""
        while True:
            keeping = self._membership.keep(self._set.refresh, self._adopt, self._give_up)
            try:
                async with beside(self._polls.until_exceeded()) as hanging, beside(keeping) as member:
                    await asyncio.wait({hanging, member}, return_when=asyncio.FIRST_COMPLETED)
                    if member.done():
                        return member.result()  # raises the error that ended the membership
            finally:
                await self._end_all()
            line = "member %s of group %r releases its logs: one record was used for more than %g s (poll_seconds_max)"
            log.warning(line, self._member, self._group, self._polls.seconds_max)
            await self._asked.wait()

    def _adopt(self, mine: set[int], record: LogSetRecord) -> list[asyncio.Task[None]]:
        """Follows exactly these logs from now on. If following one of the member's logs has already ended with an
        error, raises that error."""
        for number, share in list(self._shares.items()):
            assert share.task is not None
            if share.task.done():
                del self._shares[number]
                if not share.task.cancelled():
                    share.task.result()
            elif number not in mine:
                share.revoke()
        for number in mine - set(self._shares):
            share = self._shares[number] = AssignedLog(number)
            share.task = asyncio.create_task(self._follow(share, record))
        return self._tasks()

    def _give_up(self) -> None:
        """Releases all logs of this member to other members. If following one of the logs has ended with an error, the
        next `_adopt` raises that error."""
        for share in self._shares.values():
            share.revoke()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [share.task for share in self._shares.values() if share.task is not None]

    async def _end_all(self) -> None:
        for share in self._shares.values():
            share.revoke(at_once=True)
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        self._shares.clear()

    async def _follow(self, share: AssignedLog, record: LogSetRecord) -> None:
        of = await self._set.log(share.number)
        await self._until_used(record.before(share.number))
        while not share.is_revoked:
            share.consumption = of.consumption(
                self._group,
                start=self._start_of(share.number),
                consumer=self._member,
                commit_seconds=self._commit_seconds,
                lease_seconds=self._lease_seconds,
                poll_seconds_max=None,  # no limit: a batch may wait while the application uses one from another log
                on_truncated=self._on_truncated,
            )
            try:
                async with aclosing(share.consumption.batches()) as batches:
                    async for batch in batches:
                        await share.offer(batch, self._ready)
                        if share.is_revoked:
                            return
            except LogTruncated as error:
                share.truncated = error
                await self._until_used((share.number, error.first_position))  # until a seek moves the cursor
                share.truncated = None

    def _start_of(self, number: int) -> Where:
        """Returns where a new cursor in the log begins. If the log was added to the set after the group began, no
        record is skipped."""
        return self._start if number < self._membership.begun_with else "beginning"

    async def _until_used(self, before: tuple[int, int] | None) -> None:
        """Waits until the group has used a log up to a position. `before` is the log's number and this position, or
        None to return at once. For a new log, it is the log from which the new log's keys were moved, and the end of
        that log at the time of the move."""
        if before is None:
            return
        number, end = before
        start = self._start_of(number)
        async with await (await self._set.log(number)).cursor(self._group, start=start) as cursor:
            while True:
                if await cursor.refresh() >= end:
                    return
                await asyncio.sleep(BEFORE_SECONDS)
