"""One end: what a program was told to be in the log counts at once in whatever its client does next (rule L4)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ledgers.errors import LedgerError, LogTruncated
from ledgers.logs.errors import NoSuchPosition
from ledgers.logs.log import Log
from tests.simulation.engine.world import Violation

from .probes import LogProbe

if TYPE_CHECKING:
    from .actors import LogUser

BEYOND = 10_000
"""No log of a run has so many records."""


class OneEnd:
    """Uses a log right behind what a program's client has just appended or read."""

    def __init__(self, user: LogUser) -> None:
        self._user = user
        self._site = user.site
        self._chance = user.site.world.stream(f"{user.name} one end")
        self._ways: tuple[Callable[[Log, int], Coroutine[Any, Any, None]], ...] = (
            self._asks,
            self._reads,
            self._commits,
            self._commits,
            self._seeks,
            self._begins_a_cursor,
            self._truncates,
        )

    async def told(self, log: Log, end: int) -> None:
        """The program was told that all before this position is in the log. Errors are those that calls document."""
        plan, client = self._site.plan.one_end, self._user.client
        client.told_end = end = max(end, client.told_end)
        if plan is None or not self._chance.happens(plan.share):
            return
        try:
            await self._chance.choice(self._ways)(log, end)
            self._site.world.reached(LogProbe.OWN_END)
        except NoSuchPosition as error:
            raise self._broken(f"was told of all before {end}: {error}") from error
        except LogTruncated as error:
            if error.first_position < end:
                raise self._broken(f"uses {end}: {error}") from error
        except LedgerError as error:
            self._user.expected("own end", error)

    async def _asks(self, log: Log, told: int) -> None:
        if (end := await log.end()) < told:
            raise self._broken(f"was told of all before {told}, and the end is {end}")

    async def _reads(self, log: Log, told: int) -> None:
        try:
            records = [record async for record in log.read(told - 1, told)]
        except LogTruncated as error:
            if error.first_position < told:
                raise self._broken(f"reads {told - 1}: {error}") from error
            return
        if [record.position for record in records] != [told - 1]:
            raise self._broken(f"reads {records} as record {told - 1}")
        self._site.truth.read(records[0], self._user.name)

    async def _commits(self, log: Log, told: int) -> None:
        """Often after a commit that is refused."""
        async with await log.cursor(f"own-{self._user.name}", commits_at_close=False) as cursor:
            if self._chance.happens(0.5):
                cursor.commit(told + BEYOND)
                try:
                    await cursor.flush()
                except NoSuchPosition:
                    self._site.world.reached(LogProbe.REFUSED)
                else:
                    raise self._broken(f"commits {told + BEYOND}")
            cursor.commit(told)
            await cursor.flush()
            if not told <= cursor.position < told + BEYOND:
                raise self._broken(f"has committed {told}, and the cursor is at {cursor.position}")

    async def _seeks(self, log: Log, told: int) -> None:
        async with await log.cursor(f"sought-{self._user.name}", commits_at_close=False) as cursor:
            await cursor.seek(told)

    async def _begins_a_cursor(self, log: Log, told: int) -> None:
        name = f"begun-{self._user.name}-{self._site.next_number()}"
        async with await log.cursor(name, start=told, commits_at_close=False):
            pass

    async def _truncates(self, log: Log, told: int) -> None:
        self._site.kept_truth.ordered(told)
        await log.truncate(told)

    def _broken(self, what: str) -> Violation:
        return self._site.truth._broken("L4", f"{self._user.name} {what}")
