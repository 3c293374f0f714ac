"""A set of logs: programs that write to it, members of a group that come, go and die, and orders to grow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ledgers.errors import LedgerError, NoSuchLog
from ledgers.logs.errors import LogOfSet
from ledgers.logs.log import Log
from ledgers.logs.sets.log_set import LogSet
from metadata.records.logs.retention import NOTHING_GOES, Retention
from tests.simulation.engine.loop import OWNER, owned_by
from tests.simulation.engine.world import Violation

from .actors import PAUSE_SECONDS, LogUser
from .plan import FAULTY_SECONDS, Growth, Member, SetOrder, SetWriter, Sharing, Stranger
from .probes import LogProbe
from .shared_truth import GROUP, SET, SharedTruth

if TYPE_CHECKING:
    from .site import Client, LogSite

KEYS = tuple(b"k%d" % n for n in range(6))

LEASE_SECONDS = 3.0
COMMIT_SECONDS = 0.5
FREED_SECONDS = FAULTY_SECONDS + 20.0
"""Everything works by then."""

ALL_USED_SECONDS_MAX = 120.0
"""What is left once everything works is used within this time, by members that wait for leases to run out."""


async def opened_set(client: Client, logs: int | None = None) -> LogSet:
    return await LogSet.opened(client.logs.cluster, client.logs, SET, logs, client.settings, b"")


class SetUser(LogUser):
    """One program that uses the set."""

    async def opened_set(self) -> LogSet | None:
        OWNER.set(self.client.name)
        return await self.tried("open set", lambda: opened_set(self.client))


class SetWriterUser(SetUser):
    """Appends; what it has no answer for may be stored."""

    def __init__(self, site: LogSite, name: str, truth: SharedTruth, plan: SetWriter) -> None:
        super().__init__(site, name)
        self._truth = truth
        self._plan = plan
        self._number = 0

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        log_set = await self.opened_set()
        if log_set is None:
            return
        await self.tried("append to set", lambda: self._append_all(log_set))

    async def _append_all(self, log_set: LogSet) -> None:
        async with await log_set.writer(self.name) as writer:
            while self._number < self._plan.records:
                key, payload = KEYS[self._number % len(KEYS)], b"%s.%d" % (self.name.encode(), self._number)
                self._number += 1
                place = await writer.append(payload, key=key)
                self._truth.confirmed(place.log, place.position, payload)
                await asyncio.sleep(self._plan.pause)


class MemberUser(SetUser):
    """One process that is a member."""

    def __init__(self, site: LogSite, name: str, truth: SharedTruth, plan: Member, start: str) -> None:
        super().__init__(site, name)
        self._truth = truth
        self._plan = plan
        self._start: Any = start
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """It need not stay as long as its plan says."""
        self._leaving.set()

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        life = self.site.loop.create_task(self._live(), context=owned_by(self.client.name))
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait([life, leaving], timeout=self._plan.seconds, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if self._plan.crashes:
            self._truth.has_no_more(self.name)
            self.client.die()
        life.cancel()
        await asyncio.wait([life])
        self._truth.has_no_more(self.name)
        if not life.cancelled() and not self.client.is_dead:
            life.result()

    async def _live(self) -> None:
        log_set = await self.opened_set()
        while log_set is not None:
            try:
                await self._consume(log_set)
            except LedgerError as error:
                self.expected("consume set", error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _consume(self, log_set: LogSet) -> None:
        consumption = log_set.consumption(
            GROUP,
            member=self.name,
            start=self._start,
            commit_seconds=COMMIT_SECONDS,
            lease_seconds=LEASE_SECONDS,
        )
        self._truth.has(self.name, consumption)
        async with aclosing(consumption.records()) as records:
            async for log, record in records:
                self._truth.begins(self.name, log, record)
                await asyncio.sleep(self._plan.pause)
                self._truth.is_done(log, record)


class GrowingUser(SetUser):
    """Somebody who orders the set to grow."""

    async def grow(self, growth: Growth) -> None:
        await asyncio.sleep(growth.at)
        log_set = await self.opened_set()
        if log_set is None:
            return
        with self.site.documented(self, "grow"):
            logs = (await log_set.refresh()).logs * growth.factor
            try:
                await log_set.grow(logs)
                self.site.world.reached(LogProbe.GROWN)
            except ValueError as error:  # somebody else has it grow
                self.note("does not grow to %d: %s", logs, error)


class OrderingUser(SetUser):
    """Somebody who settles what all logs of the set have."""

    async def order(self, order: SetOrder) -> None:
        await asyncio.sleep(order.at)
        log_set = await self.opened_set()
        if log_set is None:
            return
        with self.site.documented(self, "order"):
            if order.bytes is None:
                await log_set.set_legal_hold(order.is_held)
            else:
                await log_set.set_retention(Retention(bytes=order.bytes))


class StrangerUser(LogUser):
    """Somebody with a log of their own that is called as one of the set would be."""

    async def keep(self, plan: Stranger) -> None:
        await asyncio.sleep(plan.at)
        name = f"{SET}.{plan.number}"
        try:
            await self.client.logs.create(name, self.site.settings, b"")
        except LedgerError as error:
            self.expected("create", error)
            return
        self.site.world.reached(LogProbe.STRANGER)
        await asyncio.sleep(max(0.0, FREED_SECONDS - self.site.world.now))
        try:
            await self.client.logs.delete(name, b"")
        except (NoSuchLog, LogOfSet) as error:
            raise Violation("L11", f"{self.name} made log {name}: {error}") from error


class SharingRun:
    """All of them, and what has to hold in the end."""

    def __init__(self, site: LogSite, plan: Sharing) -> None:
        self._site = site
        self._plan = plan
        self._truth = site.shared_truth = SharedTruth(site, plan.start)

    async def create(self, client: Client) -> None:
        await opened_set(client, self._plan.logs)

    def actors(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Everybody who acts, with names for the network."""
        site, truth, plan = self._site, self._truth, self._plan
        return [
            *(
                (f"s{n}", SetWriterUser(site, f"s{n}", truth, one).run())
                for n, one in enumerate(plan.writers)
            ),
            *(
                (f"m{n}", MemberUser(site, f"m{n}", truth, one, plan.start).run())
                for n, one in enumerate(plan.members)
            ),
            *((f"o{n}", OrderingUser(site, f"o{n}").order(one)) for n, one in enumerate(plan.orders)),
            *((f"x{n}", StrangerUser(site, f"x{n}").keep(one)) for n, one in enumerate(plan.strangers)),
            *((f"g{n}", GrowingUser(site, f"g{n}").grow(one)) for n, one in enumerate(plan.growths)),
        ]

    async def end(self) -> list[Log]:
        """Everything works: one more program writes, one more member uses what is left. Returns the logs."""
        await SetWriterUser(self._site, "s-last", self._truth, SetWriter(0.0, len(KEYS), 0.0)).run()
        log_set = await opened_set(self._site.client("set-last"))
        logs = [await log_set.log(n) for n in range(log_set.record.logs)]
        if self._plan.orders:
            await self._orders_are_done(log_set, logs)
        for n, log in enumerate(logs):
            self._truth.all_read(n, log_set.record, [record async for record in log.read()])
        last = MemberUser(
            self._site, "m-last", self._truth, Member(0.0, ALL_USED_SECONDS_MAX, 0.0), self._plan.start
        )
        using = self._site.loop.create_task(last.run(), context=owned_by("actor m-last"))
        ends = [await log.end() for log in logs]
        while not using.done() and not self._truth.is_all_used(ends):  # noqa: ASYNC110 — virtual time
            await asyncio.sleep(PAUSE_SECONDS)
        if not self._truth.is_all_used(ends):
            raise Violation("liveness", f"the group has not used its logs to {ends}: {self._truth.used}")
        last.leave()
        await using
        return logs

    async def _orders_are_done(self, log_set: LogSet, logs: Sequence[Log]) -> None:
        """Those that somebody was interrupted in, and the last ones."""
        self._truth.alike(log_set.record, [await log.refresh() for log in logs])
        await log_set.set_legal_hold(False)
        await log_set.set_retention(NOTHING_GOES)
        self._truth.alike(log_set.record, [await log.refresh() for log in logs])
