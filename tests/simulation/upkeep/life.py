"""One life of the bookie's process: it starts, takes the plan's steps, and ends with the power or by a step.

The last one ends in calm: power, metadata and replicas stay, and everything must come to be in order.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any

from bookie.config import BookieConfig
from bookie.disk.reserve import NAME as RESERVE
from bookie.errors import LogFailed
from bookie.storage.bookie import Bookie
from bookie.upkeep.mending.limbo import enter_limbo
from metadata import keys
from metadata.errors import MetadataError
from metadata.memory_store import MemoryStore
from metadata.records import cluster
from metadata.records.cluster import Cookie
from metadata.records.ledger_store import LedgerStore
from metadata.settled_writes import create_unless_there
from tests.bookie.logs import INCARNATION
from tests.simulation.engine.world import Violation

from . import plan as steps
from .calm import Calm
from .changes import change
from .chores import Chores
from .clients import Clients
from .ledgers import ME, Ledger
from .looks import View, look, look_at
from .metadata import Store
from .probes import UpkeepProbe
from .rot import rot
from .shelf import MEMORY
from .site import Site

BESIDE_SECONDS = 0.003


class Ended(Exception):
    """The process is to end: its log has failed, or it must not serve."""


class Life:
    """Belongs to one virtual loop."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._chance = site.stream("life", str(site.lives))
        self._beside: list[asyncio.Task[None]] = []
        self._store = Store(site.metadata)

    async def run(self) -> None:
        """Raises Ended, and BookieError or OSError where the bookie does not start; Died goes through all of it."""
        self._bookie = await self._started()
        self._look()
        while self._site.steps:
            step = self._site.steps[0]
            if isinstance(step, steps.End):
                await self._end(step)
                return
            self._site.steps.popleft()
            self._site.note("%r", step)
            await self._perform(step)
            self._look_after(step)
        await self._calm()
        self._site.is_done = True

    async def _calm(self) -> None:
        """Nothing goes wrong from here on, and everything is in order in the end."""
        self._site.calm()
        await self._join()
        self._must_live()
        await Calm(self._site, self._bookie, self._clients, self._chores, self._look).comes()
        await self._bookie.close()

    # --- the start ------------------------------------------------------------------------------

    async def _started(self) -> Bookie:
        site, machine = self._site, self._site.machine
        site.under_way["start"] += 1
        bookie = await Bookie.open(_config(site.plan.sizes.segment), machine.disk, machine.index, INCARNATION)
        self._bookie = bookie
        site.under_way["start"] -= 1
        if bookie.has_lost:
            site.owes_limbo = True
            await self._vouch_for_nothing(bookie)
        elif site.owes_limbo:
            raise Violation("limbo", "the bookie has forgotten that it had lost something")
        made = await cluster.cluster_id(MemoryStore(site.metadata.data), create=True)
        assert made is not None
        cookie = Cookie(made, ME.bookie_id, ME.incarnation)
        await create_unless_there(MemoryStore(site.metadata.data), keys.cookie(ME.bookie_id), cookie.encode())
        self._clients = Clients(site, bookie, LedgerStore(self._store))
        self._chores = Chores(site, bookie, self._store, made)
        await self._chores.retire()
        return bookie

    async def _vouch_for_nothing(self, bookie: Bookie) -> None:
        here = [one for one in self._site.ledgers if self._is_named(one)]
        for ledger in here:
            ledger.in_limbo, ledger.may_be_fenced = None, True
        self._site.under_way["limbo"] += 1
        try:
            await enter_limbo(bookie, LedgerStore(self._store), ME)
        except (MetadataError, LogFailed) as error:
            raise Ended(f"it must not serve: {error}") from error
        self._site.under_way["limbo"] -= 1
        self._site.owes_limbo = False
        for ledger in here:
            ledger.in_limbo = True
            ledger.is_fenced |= not ledger.record.is_closed

    def _is_named(self, ledger: Ledger) -> bool:
        return ledger.is_named and ledger.is_listed and not ledger.is_deleted

    # --- steps ----------------------------------------------------------------------------------

    async def _perform(self, step: steps.Step) -> None:
        match step:
            case steps.Append():
                await self._begin(self._clients.append(step), beside=step.beside)
            case steps.Fence():
                await self._begin(self._clients.fence(step), beside=step.beside)
            case steps.Read():
                await self._begin(self._clients.read(step), beside=step.beside)
            case steps.Collect(misplaced, beside):
                await self._begin(self._chores.collect(misplaced=misplaced), beside=beside)
            case steps.Compact(ratio, beside):
                await self._begin(self._chores.compact(ratio), beside=beside)
            case steps.Checkpoint(beside):
                await self._begin(self._chores.checkpoint(), beside=beside)
            case steps.Scrub(beside):
                await self._begin(self._chores.scrub(), beside=beside)
            case steps.Repair(beside):
                await self._begin(self._chores.repair(), beside=beside)
            case steps.Adopt(bookie_id, beside):
                await self._begin(self._chores.adopt(bookie_id), beside=beside)
            case _:
                await self._happen(step)
        self._must_live()

    async def _happen(self, step: steps.Step) -> None:
        """What goes wrong, or what others change in the metadata."""
        site = self._site
        match step:
            case steps.Crash(after, how, again):
                site.machine.arm(after, how, again)
            case steps.FailSync(after):
                site.machine.disk.fail_sync_after(after, OSError(5, "the disk is broken"))
            case steps.Rot():
                rot(site, step)
            case steps.LosePlace(nth):
                await self._lose_place(nth)
            case steps.PeersFail(times):
                site.peers.failures = times
            case steps.StoreFails(after):
                site.metadata.fails_after = after
            case steps.Lie(ledger_id):
                site.metadata.lies.add(ledger_id)
            case _:
                change(site, step)

    async def _begin(self, work: Coroutine[Any, Any, None], *, beside: bool) -> None:
        task = asyncio.ensure_future(work)
        self._beside.append(task)
        if beside:
            await asyncio.sleep(self._chance.exponential(BESIDE_SECONDS))
        else:
            either: list[asyncio.Future[Any]] = [task, self._bookie.failed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self._reap()

    def _reap(self) -> None:
        for task in [one for one in self._beside if one.done()]:
            self._beside.remove(task)
            task.result()

    def _must_live(self) -> None:
        if self._bookie.failed.done():
            self._site.reached(UpkeepProbe.SYNC_FAILED)
            raise Ended(str(self._bookie.failed.result()))

    async def _lose_place(self, nth: int) -> None:
        """And a scrub puts it back, unless it is placed elsewhere: an append may be on its way when a writer changes
        its ensemble. Where a crash ends the scrub, a compaction may come before the next one, and to it the frame is
        dead: the sums of the index agree with what it has lost, which rot cannot bring about."""
        await self._join()
        index = self._bookie.index
        places = [one for one in index.places() if not self._site.ledgers.of(one[0]).is_deleted]
        if not places:
            return
        ledger_id, place = places[nth % len(places)]
        ledger = self._site.ledgers.of(ledger_id)
        ledger.hidden.update(range(place.first_entry, place.last_entry + 1))
        index.drop([(ledger_id, place)])
        metadata = self._site.metadata
        metadata.has_failed = False
        await self._begin(self._chores.scrub(), beside=False)
        if not (self._bookie.failed.done() or metadata.has_failed or ledger.damaged) and ledger.is_listed:
            found = self._site.entries_on_disk(ledger_id)
            ledger.hidden = {n for n in ledger.hidden if n not in found or not ledger.places_here(n)}

    # --- ends -----------------------------------------------------------------------------------

    async def _end(self, step: steps.End) -> None:
        """The step itself is taken when the process is gone."""
        if step.cleanly:
            await self._join()
            await self._bookie.close()
        else:
            self._site.reached(UpkeepProbe.KILLED)

    async def _join(self) -> None:
        while self._beside:
            waiting: list[asyncio.Future[Any]] = [*self._beside, self._bookie.failed]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            self._reap()
            self._must_live()

    # --- looking --------------------------------------------------------------------------------

    def _look_after(self, step: steps.Step) -> None:
        """A client changes nothing but its own ledger, where no upkeep is under way."""
        loop = self._site.machine.disk.loop
        assert loop is not None
        if +self._site.under_way or not isinstance(step, steps.Append | steps.Fence | steps.Read):
            self._look()
        else:
            with loop.still():
                look_at(self._site, self._view(), self._site.ledgers.of(step.ledger))

    def _look(self) -> None:
        loop = self._site.machine.disk.loop
        assert loop is not None
        with loop.still():
            look(self._site, self._view())

    def _view(self) -> View:
        bookie = self._bookie
        return View("the bookie", bookie.index, bookie.files, bookie.states.peek)


@cache
def _directory() -> Path:
    """Where a bookie looks for free space; nothing of it is kept there but its reserve."""
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, made)
    (made / RESERVE).write_bytes(b"\0")
    return made


def _config(segment_bytes: int) -> BookieConfig:
    return BookieConfig(
        data_directory=_directory(),
        metadata_uri="memory://simulated",
        segment_bytes_max=segment_bytes,
        disk_free_share_min=0.0,
        disk_reserve_bytes=1,
    )
