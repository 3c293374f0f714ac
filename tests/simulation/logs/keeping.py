"""Retention of the log: consumers whose cursors count, auditors that come, go and double, and clocks of bookies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from bookie.upkeep.logs.retention_rounds import RetentionRounds
from ledgers.errors import LedgerError, LogTruncated
from ledgers.logs.cursors.cursor import Cursor
from ledgers.logs.log import Log
from metadata import keys
from metadata.errors import MetadataError
from metadata.records import records_pb2 as pb
from metadata.records.directory_generations import FORMAT_VERSION
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration

from .actors import PAUSE_SECONDS, LogUser
from .plan import Auditor, Consumer
from .probes import LogProbe

if TYPE_CHECKING:
    from .site import LogSite

BOOKIES = 3
RENEWAL_SECONDS = 1.0
RENEWALS_END_SECONDS = 2000.0
"""Longer than any run takes: one that is stuck has to be seen to be."""

LOOK_SECONDS = 0.5
POLL_SECONDS = 2.0


class BookieClocks:
    """What bookies say of the time, each second. `steps`: how far each clock is ahead."""

    def __init__(self, site: LogSite) -> None:
        self._site = site
        self.steps = [0.0] * BOOKIES
        for n in range(BOOKIES):
            one = Registration(BookieRef(f"b{n}", f"i{n}"), f"b{n}:1")
            site.store.data.create(one.key, one.encode(), None, site.world.now, None)
        self._renew()

    def _renew(self) -> None:
        clocks = self._site.plan.clocks
        tell = clocks is None or self._site.world.now >= clocks.told_from
        for n, step in enumerate(self.steps):
            at_ms = self._site.true_us() // 1000 + round(step * 1000) if tell else 0
            value = pb.Life(
                format_version=FORMAT_VERSION, incarnation=f"i{n}", at_ms=at_ms
            ).SerializeToString()
            self._put(keys.life(f"b{n}"), value)
        if not self._site.is_over and self._site.world.now < RENEWALS_END_SECONDS:
            self._site.world.after(RENEWAL_SECONDS, self._renew)

    def _put(self, key: str, value: bytes) -> None:
        data, now = self._site.store.data, self._site.world.now
        found = data.get(key, now)
        if found is None:
            data.create(key, value, None, now, None)
        else:
            data.replace(key, value, found.version, now, None)


class ConsumerUser(LogUser):
    """Reads from a cursor and commits each record; at one time it stands still for a while."""

    def __init__(self, site: LogSite, name: str, plan: Consumer) -> None:
        super().__init__(site, name)
        self._plan = plan
        self._has_stood = False

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        log = await self.opened()
        while log is not None and not self.site.is_over:
            try:
                async with self._cursor(log) as cursor:
                    await self._consume(log, cursor)
            except LedgerError as error:
                self.expected("consume", error)
                await asyncio.sleep(PAUSE_SECONDS)

    @asynccontextmanager
    async def _cursor(self, log: Log) -> AsyncIterator[Cursor]:
        cursor = await log.cursor(self._plan.cursor, commits_at_close=False)
        try:
            yield cursor
        finally:
            await cursor.close()

    async def _consume(self, log: Log, cursor: Cursor) -> None:
        while not self.site.is_over:
            try:
                async with aclosing(log.tail(cursor.position, timeout=POLL_SECONDS)) as records:
                    async for record in records:
                        self.site.truth.read(record, self.name)
                        cursor.commit(record.position + 1)
                        await cursor.flush()
                        await asyncio.sleep(self._plan.pause)
                        await self._stand_still()
            except LogTruncated as error:
                self.note("has missed records: %s", error)
                await cursor.seek("beginning")

    async def _stand_still(self) -> None:
        if not self._has_stood and not self.site.is_over:
            self._has_stood = True
            await asyncio.sleep(self._plan.stands_seconds)


class AuditorUser(LogUser):
    """Does the rounds of retention for a while, whether or not another one does."""

    def __init__(self, site: LogSite, name: str, plan: Auditor) -> None:
        super().__init__(site, name)
        self._plan = plan
        self.rounds = RetentionRounds(self.client._store)

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        until = self.site.loop.time() + self._plan.seconds
        while self.site.loop.time() < until and not self.site.is_over:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        try:
            await self.rounds.look()
        except MetadataError as error:
            self.note("is interrupted: %s", error)
        if self.rounds.totals.records:
            self.site.world.reached(LogProbe.RETAINED)
        if self.rounds.silent_cursors:
            self.site.world.reached(LogProbe.SILENT)
