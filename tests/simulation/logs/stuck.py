"""Once all is calm: a log of the set was truncated, a member has died or hangs, and what the group makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ledgers.errors import LogTruncated
from ledgers.logs.log import Log
from ledgers.logs.sets.set_writer import log_of
from tests.simulation.engine.loop import owned_by
from tests.simulation.engine.world import Violation

from .actors import PAUSE_SECONDS
from .plan import SetWriter
from .probes import LogProbe
from .shared_truth import GROUP, SharedTruth
from .sharing import COMMIT_SECONDS, KEYS, LEASE_SECONDS, SetUser, SetWriterUser

if TYPE_CHECKING:
    from .site import LogSite

TIMEOUT_SECONDS = 1.0
POLL_SECONDS_MAX = 2.0
HANGS_SECONDS = 60.0
USE_SECONDS = 0.3
"""So a log that has failed is found before the others are used up."""


class StuckUser(SetUser):
    """A member that uses what there is, or hangs in its first record."""

    def __init__(self, site: LogSite, name: str, truth: SharedTruth, start: str) -> None:
        super().__init__(site, name)
        self._truth = truth
        self._start: Any = start
        self.has_begun = asyncio.Event()

    async def use(self, *, hangs: bool = False, **options: Any) -> None:
        """Raises what ends it."""
        log_set = await self.opened_set()
        assert log_set is not None
        consumption = log_set.consumption(
            GROUP,
            member=self.name,
            start=self._start,
            commit_seconds=COMMIT_SECONDS,
            lease_seconds=LEASE_SECONDS,
            poll_seconds_max=POLL_SECONDS_MAX,
            **options,
        )
        self._truth.has(self.name, consumption)
        try:
            async with aclosing(consumption.records()) as records:
                async for log, record in records:
                    self._truth.begins(self.name, log, record)
                    self.has_begun.set()
                    await asyncio.sleep(HANGS_SECONDS if hangs else USE_SECONDS)
                    self._truth.is_done(log, record)
        finally:
            self._truth.has_no_more(self.name)


class StuckRun:
    """Each trouble comes to a group without members that has records to use."""

    def __init__(self, site: LogSite, truth: SharedTruth, start: str) -> None:
        self._site = site
        self._truth = truth
        self._start = start

    async def meet(self, trouble: str, logs: Sequence[Log]) -> None:
        while self._truth.members:  # noqa: ASYNC110 — virtual time; those that the plan has leave
            await asyncio.sleep(PAUSE_SECONDS)
        await self._drained("before", logs)
        await SetWriterUser(self._site, "s-stuck", self._truth, SetWriter(0.0, 2 * len(KEYS), 0.0)).run()
        troubles: dict[str, Callable[[Sequence[Log]], Coroutine[Any, Any, None]]] = {
            "truncated": self._truncated,
            "dies": self._dies,
            "hangs": self._hangs,
        }
        await troubles[trouble](logs)
        self._site.world.reached(LogProbe.STUCK)

    async def _truncated(self, logs: Sequence[Log]) -> None:
        """With "raise" the other logs are used before that is raised; with "oldest" nothing more is missed."""
        number = log_of(KEYS[0], len(logs))
        first = await logs[number].end() - 1
        await logs[number].truncate(first)
        try:
            await self._act("m-raises", timeout=TIMEOUT_SECONDS)
        except LogTruncated:
            self._all_used("m-raises", [await log.end() for log in logs], but=number)
        else:
            raise Violation("L11", f"nobody was told that log {number} was truncated")
        self._truth.used[number] = first
        await self._drained("oldest", logs, on_truncated="oldest")

    async def _dies(self, logs: Sequence[Log]) -> None:
        """What it had is used by a member whose timeout is shorter than the lease."""
        user = self._user("m-dies")
        using = self._begin(user, hangs=True)
        await user.has_begun.wait()
        user.client.die()
        await asyncio.wait([using])
        await self._drained("after-death", logs)

    async def _hangs(self, logs: Sequence[Log]) -> None:
        """It goes on asking for no record, and others use what it had."""
        user = self._user("m-hangs")
        using = self._begin(user, hangs=True)
        await user.has_begun.wait()
        await asyncio.sleep(2 * POLL_SECONDS_MAX)
        await self._drained("after-hang", logs)
        using.cancel()
        await asyncio.wait([using])

    async def _drained(self, name: str, logs: Sequence[Log], **options: Any) -> None:
        """A member that ends by its timeout has used everything: there is no other one that lives."""
        await self._act(f"m-{name}", timeout=TIMEOUT_SECONDS, **options)
        self._all_used(f"m-{name}", [await log.end() for log in logs])

    def _all_used(self, member: str, ends: Sequence[int], but: int = -1) -> None:
        left = {n: end for n, end in enumerate(ends) if n != but and self._truth.used.get(n, 0) < end}
        if left:
            raise Violation("L11", f"{member} has ended, and nobody has used {left}: {self._truth.used}")

    def _user(self, name: str) -> StuckUser:
        return StuckUser(self._site, name, self._truth, self._start)

    def _begin(self, user: StuckUser, **options: Any) -> asyncio.Task[None]:
        return self._site.loop.create_task(user.use(**options), context=owned_by(user.client.name))

    async def _act(self, name: str, **options: Any) -> None:
        await self._begin(self._user(name), **options)
