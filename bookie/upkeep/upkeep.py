"""Background maintenance of a bookie: collection, compaction, scrubbing, re-replication, operator requests.

One lock serializes all work that moves or drops frames. A failed round is logged, and retried when the next one is due;
partial work need not be undone (`compactor.py`, `collector.py`). Suspending upkeep interrupts the running round.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from metadata.backup import hold
from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.rate_limit import LEDGERS_PER_SECOND, RateLimit
from metadata.records import cluster
from metadata.records.cluster import Cookie, find_bookie
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ..errors import BookieError, LogFailed
from ..log import segment_files
from ..storage.bookie import Bookie
from ..upkeep_config import UpkeepConfig
from ..wire.messages import MaintainReply, MaintainRequest, MaintenanceAction, Status
from .collecting.collector import CollectionResult, Collector
from .collecting.compactor import CompactionResult, Compactor
from .healing.auditor import Auditor
from .healing.cluster_view import look
from .healing.local_check import FIRST_ROUND_SECONDS, LocalCheck
from .healing.rebalancer import Rebalancer
from .healing.replication_tasks import takers
from .healing.replication_worker import ReplicationWorker
from .healing.restore_check import RestoreCheck
from .inventory.inventory import Inventory
from .mending.repair import Repair
from .mending.replication_task import ReplicationTask
from .repair_client import Peers
from .reports import RepairProgress, RoundTotals
from .schedule import Depth, Schedule
from .scrubbing.scrubber import Scrubber
from .threads import in_thread

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between checks of the schedule."""

Report = dict[str, Any]


class Upkeep:
    """Maintains one bookie. Belongs to the event loop; `run` runs until cancelled.

    `extra_status` returns further fields of the status report. `returned`: see `Collector`.
    """

    def __init__(
        self,
        bookie: Bookie,
        store: MetadataStore,
        cookie: Cookie,
        config: UpkeepConfig,
        peers: Peers,
        extra_status: Callable[[], Report] = dict,
        *,
        returned: int = 0,
    ) -> None:
        self._extra_status = extra_status
        self._bookie = bookie
        self._store = store
        self._cookie = cookie
        self._config = config
        self._collector = Collector(bookie, store, cookie, RateLimit(LEDGERS_PER_SECOND), returned)
        self._compactor = Compactor(bookie, RateLimit(config.compaction_bytes_per_second))
        self._lock = asyncio.Lock()
        self._bookie_ref = me = BookieRef(cookie.bookie_id, cookie.incarnation)
        repair_pace = RateLimit(config.repair_bytes_per_second)
        self._repair = Repair(bookie, LedgerStore(store), me, peers, repair_pace)
        self._heals = config.heals
        inventory = Inventory(bookie, repair_pace)
        self.worker = ReplicationWorker(
            store, me, self._repair, peers, self._lock, inventory, config, time.time
        )
        self._rebalancer = Rebalancer(store, me, self.worker.healer, self._lock, config)
        self.auditor = Auditor(store, me, config, time.time, peers)
        self._stock_taker = LocalCheck(bookie, store, me, inventory, self._lock, config, time.time)
        self._fitting = RestoreCheck(bookie, store, me, self._lock, self._stock_taker)
        scrub_pace = RateLimit(config.scrub_bytes_per_second)
        look_again = self._stock_taker.look_again
        self.scrubber = Scrubber(bookie, self._repair, self._lock, scrub_pace, look_again)
        self._rounds: set[asyncio.Task[Report]] = set()
        self._suspended = False
        self._last: Report = {}
        self.totals = RoundTotals()

    @property
    def is_suspended(self) -> bool:
        return self._suspended

    @property
    def repaired(self) -> RepairProgress:
        """Totals of the entries and bytes fetched from other bookies since the start."""
        return self._repair.progress

    async def run(self) -> None:
        """Runs rounds when due, scrubs and re-replicates. Ends only if it is cancelled or the log has failed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_rounds())
            group.create_task(self.scrubber.scrub_for_ever(self._config.scrub_seconds, FIRST_ROUND_SECONDS))
            group.create_task(self._fitting.run())
            if self._heals:
                group.create_task(self.worker.run())
                group.create_task(self._rebalancer.run())
                group.create_task(self.auditor.run())
                group.create_task(self._stock_taker.run())

    async def _run_rounds(self) -> None:
        loop = asyncio.get_running_loop()
        schedule = Schedule.starting(self._config, loop.time())
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            depth = schedule.due(loop.time(), space_is_low=self._bookie.space.is_low())
            if depth is None or self._suspended:
                continue
            try:
                await self.round(depth)
            except (BookieError, MetadataError, OSError) as error:
                if isinstance(error, LogFailed):
                    return  # the process is about to end
                log.log(
                    weight(error),
                    "the %s round of upkeep failed, and will be retried: %s",
                    depth.value,
                    error,
                )
            schedule.done(depth, loop.time())

    async def round(self, depth: Depth, *, retired: bool = False) -> Report:
        """Runs one round now; returns its report. Raises BookieError, MetadataError or OSError; in that case the round
        can be repeated."""
        if self._suspended:
            raise BookieError("upkeep is suspended; run: bookledger bookie gc resume")
        working = asyncio.ensure_future(self._do_alone(depth, retired=retired))
        self._rounds.add(working)
        try:
            self._last = await working
            self.totals.add(self._last)
            return self._last
        except (BookieError, MetadataError, OSError):
            self.totals.rounds["failed"] += 1
            raise
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not self._suspended or (me is not None and me.cancelling()):
                raise
            raise BookieError("the round was interrupted: upkeep is suspended") from None
        finally:
            self._rounds.discard(working)
            working.cancel()

    async def _do_alone(self, depth: Depth, *, retired: bool) -> Report:
        async with self._lock:
            return await self._do(depth, retired=retired)

    async def _do(self, depth: Depth, *, retired: bool) -> Report:
        is_major = depth is Depth.MAJOR
        collected = await self._collector.collect(also_misplaced=is_major, also_retired=retired)
        compacted = await self._compactor.compact(self._live_ratio_max(depth))
        if self.scrubber.last is not None and depth is not Depth.COLLECT:
            damaged = self.scrubber.last.segments_damaged
            compacted = compacted.plus(await self._compactor.empty_all(damaged))
        return _report(depth, collected, compacted)

    def _live_ratio_max(self, depth: Depth) -> float:
        ratios = {
            Depth.COLLECT: 0.0,
            Depth.MINOR: self._config.minor_live_ratio,
            Depth.MAJOR: self._config.major_live_ratio,
        }
        return ratios[depth]

    # --- operator requests -------------------------------------------------------------------

    async def maintain(self, request: MaintainRequest) -> MaintainReply:
        """Executes an operator's request. Raises BookieError, MetadataError or OSError."""
        match request.action:
            case MaintenanceAction.COLLECT:
                return _reply(await self.round(Depth.MAJOR, retired=request.retired))
            case MaintenanceAction.SUSPEND:
                self._suspend()
            case MaintenanceAction.RESUME:
                self._suspended = False
            case MaintenanceAction.SCRUB:
                report = asdict(await self.scrubber.scrub_once())
                damaged = [segment_files.name_of(number) for number in report["segments_damaged"]]
                return _reply({**report, "segments_damaged": damaged})
            case MaintenanceAction.REPAIR:
                await hold.check_accepted(self._store)
                if request.adopt:
                    await self._check_adoptable(request.adopt)
                return _reply(await self._repair_all(request.adopt or self._cookie.bookie_id))
            case MaintenanceAction.STATUS:
                pass
        return _reply(await self._status())

    async def _repair_all(self, adopted: str) -> Report:
        """Repairs the ledgers in limbo, then takes over the positions of the lost bookie named `adopted`."""
        async with self._lock:
            limbo = await self._repair.repair_limbo()
            registered = await find_bookie(self._store, adopted)
            living = None if registered is None else registered.bookie.incarnation
            view = await look(self._store, wait_ms=0)
            me = self._bookie_ref

            def may_take(task: ReplicationTask) -> bool:
                return any(one.bookie == me for one in takers(task, view)) or not takers(task, view)

            report = await self._repair.adopt(adopted, living=living, may_take=may_take)
            return asdict(limbo.plus(report))

    async def _check_adoptable(self, bookie_id: str) -> None:
        """Raises BookieError if the bookie was never formatted or is registered."""
        if await cluster.read_cookie(self._store, bookie_id) is None:
            raise BookieError(f"no bookie was ever formatted as {bookie_id}")
        alive = await find_bookie(self._store, bookie_id)
        if alive is not None and bookie_id != self._cookie.bookie_id:
            raise BookieError(
                f"bookie {bookie_id} is registered: it is alive, or has just died and its lease has not expired; "
                "stop it or wait, then try again"
            )

    def _suspend(self) -> None:
        self._suspended = True
        for working in self._rounds:
            working.cancel()

    async def _status(self) -> Report:
        usage = await in_thread(self._bookie.index.usage.totals)
        return {
            "suspended": self._suspended,
            "working": self._lock.locked(),
            "live_bytes": sum(held.frame_bytes for held in usage.values()),
            "segments_with_entries": len(usage),
            "last_round": self._last,
            "last_scrub": None if self.scrubber.last is None else asdict(self.scrubber.last),
            "repairing": asdict(self._repair.progress),
            **self._extra_status(),
        }


def _report(depth: Depth, collected: CollectionResult, compacted: CompactionResult) -> Report:
    return {"round": depth.value, **asdict(collected), **asdict(compacted)}


def _reply(report: Report) -> MaintainReply:
    return MaintainReply(Status.OK, report=json.dumps(report))
