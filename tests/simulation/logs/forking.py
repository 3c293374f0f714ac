"""Forks of the log: who makes, writes, gives up and deletes them, and what must hold of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ledgers.errors import LedgerError, NoSuchLog
from ledgers.logs.errors import LogIncomplete
from ledgers.logs.log import Log
from metadata import keys
from metadata.records.logs import log_codec
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment
from tests.simulation.engine.loop import owned_by
from tests.simulation.engine.world import Violation

from .actors import LogUser
from .ledgers import Ledger
from .plan import Forking, ForkOrder
from .probes import LogProbe

if TYPE_CHECKING:
    from .site import Client, LogSite

LOGS_MAX = 1000


@dataclass(slots=True)
class KnownFork:
    """A fork that somebody was given. `records`: what it has, by position; all of it but for what is given up."""

    name: str
    end: int
    records: dict[int, bytes]
    confirmed: set[int] = field(default_factory=set)


class ForkTruth:
    """Looks at each deletion of a ledger, and in the end at each fork."""

    def __init__(self, site: LogSite) -> None:
        self._site = site
        self.known: dict[bytes, KnownFork] = {}
        self.restored: dict[str, dict[int, bytes]] = {}
        self.deleted: set[str] = set()
        """Names of forks that somebody wanted to delete, whatever came of it."""

    def logs(self) -> list[LogRecord]:
        """The records that stand in the metadata, also of deleted logs."""
        found = self._site.store.data.list_page(keys.LOGS, None, LOGS_MAX, self._site.world.now).items
        return [log_codec.decode(item.key, item.value) for item in found]

    def made_of(self, fork: LogRecord) -> LogRecord:
        """The log whose name the fork was to take."""
        return next(one for one in self.logs() if one.name == fork.name and one.identity != fork.identity)

    def deletes(self, ledger: Ledger) -> None:
        """A ledger is being deleted: no log has it in which something is left."""
        for log in self.logs():
            for segment in () if log.deleted else self._segments(log):
                if (
                    segment.ledger_id == ledger.ledger_id
                    and (segment.end_position or 2**63) > log.first_position
                ):
                    raise self._site.truth._broken(
                        "L13", f"ledger {ledger.ledger_id} is deleted, and log {log.name} needs it"
                    )

    def _segments(self, log: LogRecord) -> list[Segment]:
        prefix, now = keys.log_pages(log.identity), self._site.world.now
        pages = self._site.store.data.list_page(prefix, None, LOGS_MAX, now).items
        return [
            *(one for page in pages for one in log_codec.decode_page(page.key, page.value)),
            *log.segments,
        ]

    def check_none_is_lost(self) -> None:
        """Metadata that went back may know nothing of a fork. One that was written to is made again."""
        standing = {one.identity for one in self.logs()}
        for identity, known in self.known.items():
            if known.confirmed and identity not in standing and known.name not in self.deleted:
                raise Violation(
                    "L13", f"fork {known.name} is lost, with positions {sorted(known.confirmed)[:3]}"
                )

    async def check(self, log: Log) -> None:
        """Somebody reads a whole fork, once everything is calm."""
        record, known = await log.refresh(), self.known.get(log.record.identity)
        found = [one async for one in log.read()]
        first = record.first_position
        if [one.position for one in found] != list(range(first, first + len(found))):
            raise Violation("L13", f"fork {log.name} has {[one.position for one in found]} from {first} on")
        for one in found:
            expected = known.records.get(one.position, one.payload) if known else one.payload
            if expected != one.payload:
                raise Violation(
                    "L13", f"fork {log.name} has {one.payload!r} at {one.position}, not {expected!r}"
                )
            if known is not None and one.position < known.end and one.position not in known.records:
                self._site.truth.read(one, log.name)
        if known is not None:
            end = first + len(found)
            lost = [
                n for n in (*range(first, known.end), *known.confirmed) if not first <= n < end and n >= first
            ]
            if lost:
                raise Violation("L13", f"fork {log.name} has lost {lost[:3]}")


class ForkUser(LogUser):
    """One order."""

    def __init__(self, site: LogSite, name: str, plan: ForkOrder) -> None:
        super().__init__(site, name)
        self._plan = plan

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        work = asyncio.create_task(self._order(), context=owned_by(self.client.name))
        await asyncio.wait([work])
        if not work.cancelled():  # its process did not die
            work.result()

    async def _order(self) -> None:
        log = await self._to_fork()
        if log is None:
            return
        with self.site.documented(self, "fork"):
            fork = await self._forked(log)
            await self._written(fork)
            await self._ended(fork)

    async def _to_fork(self) -> Log | None:
        forks = [
            one.name
            for one in self.site.fork_truth.known.values()
            if one.name not in self.site.fork_truth.deleted
        ]
        if not (self._plan.of_fork and forks):
            return await self.opened()
        name = self.client.chance.choice(sorted(forks))
        try:
            return await self.client.logs.open(name, b"")
        except LedgerError as error:
            self.expected("open", error)
            return None

    async def _forked(self, log: Log) -> Log:
        first, end = await log.first_position(), await log.end()
        at = first + round((end - first) * self._plan.share)
        if self._plan.dies_after is not None:
            self.site.world.after(self._plan.dies_after * self.site.plan.pace_seconds, self.client.die)
        name = f"fork{self.site.next_number()}"
        self.note("forks %s at %d as %s", log.name, at, name)
        fork = await log.fork(name, at=at)
        self.site.world.reached(LogProbe.FORKED)
        if log.record.makers:
            self.site.world.reached(LogProbe.FORKED_AGAIN)
        of = self.site.fork_truth.known.get(log.record.identity)
        records = {} if of is None else {n: one for n, one in of.records.items() if n < at}
        self.site.fork_truth.known[fork.record.identity] = KnownFork(name, at, records)
        return fork

    async def _written(self, fork: Log) -> None:
        if not self._plan.records:
            return
        known = self.site.fork_truth.known[fork.record.identity]
        writer = await fork.writer(self.name)
        if writer.next_position < known.end:
            raise Violation("L13", f"{self.name} writes to fork {fork.name} at {writer.next_position}")
        for n in range(self._plan.records):
            payload = b"%s-%d" % (self.name.encode(), n)
            position = await writer.append(payload)
            known.records[position] = payload
            known.confirmed.add(position)
        await writer.close()

    async def _ended(self, fork: Log) -> None:
        end = await fork.end()
        if self._plan.gives_up:
            await fork.truncate(round(end * self._plan.gives_up))
        if self._plan.restores is not None:
            fork = await self._restored(fork, self._plan.restores)
        if self._plan.deletes:
            self.site.fork_truth.deleted.add(fork.name)
            await self.client.logs.delete(fork.name, b"")

    async def _restored(self, fork: Log, share: float) -> Log:
        """What the restored log has is what the former one had, whichever of the two a name leads to in the end."""
        truth, name = self.site.fork_truth, fork.name
        first, end = await fork.first_position(), await fork.end()
        at = first + round((end - first) * share)
        former = f"former{self.site.next_number()}"
        self.note("restores %s to %d, the former log is %s", name, at, former)
        known = truth.known[fork.record.identity]
        truth.restored[name] = {n: one for n, one in known.records.items() if n < at}
        await fork.restore(at=at, former=former)
        known.name = former
        self.site.world.reached(LogProbe.RESTORED)
        restored = await self.client.logs.open(name, b"")
        truth.known[restored.record.identity] = KnownFork(name, at, truth.restored[name])
        return restored


async def forks_in_the_end(site: LogSite, client: Client, plan: Forking) -> Sequence[Log]:
    """All that are left are whole; what was interrupted is deleted, and so is the log, if these are to outlive it."""
    truth, left = site.fork_truth, []
    truth.check_none_is_lost()
    for record in truth.logs():
        if not (record.makers or record.forking or record.identity in truth.known):
            continue
        try:
            log = await client.logs.open(record.name, b"")
        except LogIncomplete:
            site.world.reached(LogProbe.FORKED_IN_PART)
            await client.logs.delete(record.name, b"")
            continue
        except NoSuchLog:  # it is deleted, perhaps in part, or its maker died before it had its name
            with suppress(NoSuchLog):
                await client.logs.delete(record.name, b"")
            continue
        if log.record.identity != record.identity:  # one that was to take the name, and whose maker died
            site.world.reached(LogProbe.RESTORED_IN_PART)
            await client.delete_stale(log, record)
            continue
        left.append(log)
    for log in left:
        if log.record.successor is None:
            await (
                await log.writer()
            ).close()  # what a writer confirmed in its last moment is told then (rule L4)
        await truth.check(log)
    return left
