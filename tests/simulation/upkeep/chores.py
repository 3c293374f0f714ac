"""Upkeep of one life of the bookie: what is asked of it, and what must be true when it says that it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bookie.errors import LogFailed
from bookie.storage.bookie import Bookie
from bookie.upkeep.collecting.collector import CollectionResult, Collector
from bookie.upkeep.collecting.compactor import CompactionResult, Compactor
from bookie.upkeep.mending.repair import Repair
from bookie.upkeep.reports import RepairReport, ScrubReport
from bookie.upkeep.scrubbing.scrubber import Scrubber
from metadata import keys
from metadata.errors import MetadataError
from metadata.healing.collection_progress import passed_by_all, retire
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore
from tests.simulation.engine.world import Violation
from tests.support.upkeep import tell_nobody

from .ledgers import ME, Ledger
from .probes import UpkeepProbe
from .site import Site

AT_ONCE = 1e12


class Chores:
    """One bookie's."""

    def __init__(self, site: Site, bookie: Bookie, store: MetadataStore, cluster_id: str) -> None:
        self._site = site
        self._bookie = bookie
        pace, self._lock = RateLimit(AT_ONCE), asyncio.Lock()
        cookie = Cookie(cluster_id, ME.bookie_id, ME.incarnation)
        self._collector = Collector(bookie, store, cookie, pace)
        self._compactor = Compactor(bookie, pace)
        self._repair = Repair(bookie, LedgerStore(store), ME, site.peers, pace)
        self._scrubber = Scrubber(bookie, self._repair, self._lock, pace, tell_nobody)

    async def collect(self, *, misplaced: bool) -> None:
        await self._locked("collecting", lambda: self._collect(misplaced=misplaced))

    async def compact(self, ratio: float) -> None:
        await self._locked("compacting", lambda: self._compact(ratio))

    async def checkpoint(self) -> None:
        await self._do("checkpointing", self._bookie.checkpoint)

    async def scrub(self) -> None:
        await self._do("scrubbing", self._scrub)  # it takes the lock itself, when it needs it

    async def repair(self) -> None:
        await self._locked("repair", self._repair_limbo)

    async def adopt(self, bookie_id: str) -> None:
        await self._locked("adopting", lambda: self._adopt(bookie_id))

    # --- how ------------------------------------------------------------------------------------

    async def _locked(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        async with self._lock:
            await self._do(name, work)

    async def _do(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._site.under_way[name] += 1
        try:
            await work()
        except MetadataError as error:
            self._site.note("%s: %s", name, error)
            if name == "collecting":
                self._site.reached(UpkeepProbe.LISTING_FAILED)
        except LogFailed:
            if not self._bookie.failed.done():
                raise
        finally:
            self._site.under_way[name] -= 1

    async def _collect(self, *, misplaced: bool) -> None:
        deleted = {one: one.touched for one in self._site.ledgers if one.is_deleted and not one.busy}
        if self._bookie._log._unsynced:  # frames that were written before are still on their way to the index
            deleted = {}
        lied = set(self._site.metadata.lies)
        again = [one for one in self._retired() if self._bookie.states.peek(one.ledger_id).known]
        if again and not self._site.was_made_of_log:
            raise Violation("B3", f"{again} are here, deleted, and left no tombstone: they stay for ever")
        says_so = (
            bool(again) and self._site.metadata.is_complete
        )  # else the operator would have living ones dropped
        if not says_so:
            deleted = {one: touched for one, touched in deleted.items() if one not in again}
        self._site.metadata.is_collecting = True
        try:
            done = await self._collector.collect(also_misplaced=misplaced, also_retired=says_so)
        finally:
            self._site.metadata.is_collecting = False
        self._site.note("%s", done)
        for ledger, touched in deleted.items():
            if ledger.touched == touched:
                self._is_forgotten(ledger)
        self._tell(done, lied)
        if any(not self._bookie.states.peek(one.ledger_id).known for one in again):
            self._site.reached(UpkeepProbe.FORGOTTEN_AGAIN)
        await self.retire()

    def _retired(self) -> list[Ledger]:
        """Deleted ledgers of which no tombstone is left."""
        data = self._site.metadata.data
        return [
            one
            for one in self._site.ledgers
            if one.is_deleted and data.get(keys.ledger(one.ledger_id), 0.0) is None
        ]

    async def retire(self) -> None:
        """Tombstones that the bookie has passed go, some of them sooner than others."""
        store = MemoryStore(self._site.metadata.data)
        passed = await passed_by_all(store)
        chance = self._site.stream("retire", str(passed))
        deleted = [one async for one in LedgerStore(store).list_with_deleted() if isinstance(one, Tombstone)]
        gone = {
            one.ledger_id: one.version for one in deleted if one.version <= passed and chance.happens(0.5)
        }
        if gone:
            await retire(store, gone)
            self._site.note("retired: %s", sorted(gone))
            self._site.reached(UpkeepProbe.RETIRED)

    def _is_forgotten(self, ledger: Ledger) -> None:
        if self._bookie.states.peek(ledger.ledger_id).known:
            raise Violation("B3", f"ledger {ledger.ledger_id} is deleted, and was not forgotten")
        ledger.is_gone = True

    def _tell(self, done: CollectionResult, lied: set[int]) -> None:
        reached = self._site.reached
        if done.ledgers_forgotten:
            reached(UpkeepProbe.FORGOTTEN)
        if done.frames_dropped:
            reached(UpkeepProbe.MISPLACED_DROPPED)
        if done.unlisted:
            reached(UpkeepProbe.UNLISTED_KEPT)
        if any(self._site.ledgers.of(n).held and n not in self._site.metadata.lies for n in lied):
            reached(UpkeepProbe.LIE_REFUTED)

    async def _compact(self, ratio: float) -> None:
        for ledger in self._site.ledgers:
            # After a loss of the index the log has it again, and copies say whose it is: until it is collected again.
            ledger.is_gone &= not self._bookie.states.peek(ledger.ledger_id).known
        done: CompactionResult = await self._compactor.compact(ratio)
        self._site.note("%s", done)
        if done.segments_kept:
            self._site.reached(UpkeepProbe.SEGMENT_KEPT)

    async def _scrub(self) -> None:
        done: ScrubReport = await self._scrubber.scrub_once()
        self._site.note("%s", done)
        if done.entries_repaired:
            self._site.reached(UpkeepProbe.ENTRY_FETCHED)
        if done.frames_restored:
            self._site.reached(UpkeepProbe.FRAME_RESTORED)

    async def _repair_limbo(self) -> None:
        perhaps = [one for one in self._site.ledgers if one.in_limbo is not False]
        before = [one for one in perhaps if self._bookie.states.peek(one.ledger_id).limbo]
        for ledger in perhaps:
            ledger.in_limbo = None if ledger in before else False
        done: RepairReport = await self._repair.repair_limbo()
        self._site.note("%s", done)
        self._site.ledgers.look()
        for ledger in before:
            ledger.in_limbo = self._bookie.states.peek(ledger.ledger_id).limbo
            if ledger.in_limbo:
                self._site.reached(UpkeepProbe.LIMBO_STAYED)
            elif not ledger.is_deleted:
                self._site.reached(UpkeepProbe.LIMBO_LEFT)
                ledger.held |= ledger.all_placed()  # all that is placed here was looked for

    async def _adopt(self, bookie_id: str) -> None:
        done: RepairReport = await self._repair.adopt(bookie_id, living=None)
        self._site.note("%s", done)
        if done.fragments_moved:
            self._site.reached(UpkeepProbe.ADOPTED)
