"""The metadata goes back to an older copy of itself, is held back, brought up to what bookies have noted,
and accepted. Writers, readers and producers live on meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bookledger.cluster.rebuilding.record_repair import find_stale_records
from metadata import keys
from metadata.backup import hold
from metadata.errors import MetadataError
from metadata.memory_store import _Entry
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from tests.simulation.shells.metadata import VirtualStore

from .ledgers import Ledger
from .plan import GoesBack
from .probes import LogProbe

if TYPE_CHECKING:
    from .site import LogSite

TOLD_SHARE = 0.8
"""Share of ledgers that were closed of which a bookie was told the end."""

PAUSE_SECONDS = 0.5


class GoingBack:
    """One event of a plan, from the copy on."""

    def __init__(self, site: LogSite, event: GoesBack) -> None:
        self._site = site
        self._event = event
        self._store = VirtualStore(site.store, "operator")
        self._copy: dict[str, _Entry] = {}
        self._told: dict[int, bool] = {}
        self._chance = site.world.stream("notes")

    def copy(self) -> None:
        self._copy = dict(self._site.store.data._entries)

    def put_back(self) -> None:
        """The store knows the copy and the hold. It gives no revision twice, and its watches have missed something. No
        bookie has collected what was deleted since."""
        data, now = self._site.store.data, self._site.world.now
        data._entries = dict(self._copy)
        data._events.clear()
        data._revision += 1
        data.create(keys.RESTORED, hold._begun(1, 1), None, now, None)
        self._site.truth.went_back(self._site.record())

    async def accept(self) -> None:
        """As an operator does it, who tries again until it is done."""
        await asyncio.sleep(self._event.held_seconds)
        while not self._site.is_over:
            try:
                await self._bring_up()
                break
            except MetadataError as error:
                self._site.world.note("it is not accepted yet: %r", error)
                await asyncio.sleep(PAUSE_SECONDS)
        await self._store.close()

    async def _bring_up(self) -> None:
        await self._bring_up_ledgers()
        found = [one async for one in find_stale_records(self._store)]
        for one in found:
            await one.make()
            self._site.world.note("%s gets %s; doubts: %s", one.about, one.missing, one.doubts)
            self._site.world.reached(LogProbe.BROUGHT_UP)
            self._site.doubts += one.doubts
        self._site.truth.brought_up({one.epoch for one in self._site.segments()})
        await hold.accept(self._store)
        self._site.world.note("the older metadata is accepted")

    async def _bring_up_ledgers(self) -> None:
        store = LedgerStore(self._store)
        for ledger in self._site.ledgers.all():
            noted = None if self._site.ledgers.is_deleted(ledger) else self._noted(ledger)
            if noted is None:
                continue
            found = await store.read(ledger.ledger_id)
            if found is None:
                await store.create(noted, while_held=True)
            elif noted.is_closed and not found.record.is_closed:
                await store.change(noted, found.version)

    def _noted(self, ledger: Ledger) -> LedgerRecord | None:
        """What bookies were told of it: with its first entries, and most often of its end."""
        if ledger.end is not None and self._told.setdefault(
            ledger.ledger_id, self._chance.happens(TOLD_SHARE)
        ):
            return ledger.closed_record()
        return ledger.record if ledger.entries else None
