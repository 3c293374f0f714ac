"""The worker in every bookie: it looks at what is marked, and heals what it can take.

What lacks on this very bookie only this bookie can fetch. A place that another one lost goes to one of those that stand
best beside the other copies: whoever claims the ledger first, for as long as its lease lasts. What comes to nothing is
tried again at growing intervals, and the mark says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from metadata import keys
from metadata.backup import hold
from metadata.counting.outage import weight
from metadata.errors import BadRecord, LeaseLost, MetadataError
from metadata.healing import holder
from metadata.healing.holder import Holder
from metadata.healing.marks import Mark, Marks
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.store import Lease, MetadataStore

from ...errors import BookieError, LogFailed
from ...upkeep_config import UpkeepConfig
from ..inventory.inventory import Inventory
from ..mending.healer import Healer
from ..mending.mending import Tally
from ..mending.need import Need, Reason
from ..mending.repair import COULD_NOT, Repair
from ..peers import Peers
from .needs import is_left_behind, needs, takers
from .view import ClusterView, look

log = logging.getLogger(__name__)

TELL_SECONDS = 5.0
"""How often the claim is renewed, and says how much was copied."""

BACKOFFS_MAX = 100_000
"""Ledgers whose failures are remembered; more of them are just tried again."""


@dataclass(slots=True)
class _Backoff:
    tries: int = 0
    not_before: float = 0.0

    def failed(self, now: float, config: UpkeepConfig) -> None:
        wait = min(config.retry_seconds_max, config.retry_seconds_min * 2 ** min(self.tries, 20))
        self.tries, self.not_before = self.tries + 1, now + wait


class Worker:
    """Heals on one bookie, a ledger at a time. Belongs to the event loop; `run` until cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        me: BookieRef,
        repair: Repair,
        peers: Peers,
        upkeep: asyncio.Lock,
        inventory: Inventory,
        config: UpkeepConfig,
        clock: Callable[[], float],
    ) -> None:
        self._inventory = inventory
        self._store = store
        self._ledgers = LedgerStore(store)
        self._marks = Marks(store)
        self._me = me
        self._repair = repair
        self.healer = Healer(self._ledgers, me, repair.mender)
        self._peers = peers
        self._upkeep = upkeep
        self._config = config
        self._clock = clock
        self._backoffs: dict[int, _Backoff] = {}
        self._limbo: _Backoff | None = (
            _Backoff()
        )  # a ledger gets into limbo before the bookie serves, and never later
        self._left_behind: dict[int, float] = {}
        self.ledgers_healed = self.ledgers_closed = self.failures = 0

    @property
    def waiting(self) -> int:
        """Ledgers that are left alone for a while."""
        return len(self._backoffs)

    async def run(self) -> None:
        """Looks again and again until cancelled, or until the log has failed."""
        while True:
            await asyncio.sleep(self._config.heal_look_seconds)
            try:
                await self.look_once()
            except LogFailed:
                return  # the process is about to end
            except (BookieError, MetadataError, OSError) as error:
                log.log(weight(error), "healing was interrupted, and will be tried again: %s", error)

    async def look_once(self) -> None:
        """Heals what can be healed now. Raises BookieError, MetadataError and OSError.

        Restored metadata is not acted upon before it is accepted: what stands here may be of another ledger's time.
        """
        if await hold.read(self._store) is not None:
            return
        await self._end_limbo()
        view: ClusterView | None = None
        async for mark in self._marks.list():
            if not self._is_due(mark):
                continue
            if view is None:
                view = await look(self._store, self._now_ms(), self._config.lost_bookie_ms)
            if self._me not in view.living:
                return  # another one has the name, or the lease was lost: not for us to say what is whole
            try:
                await self._see_to(mark, view)
            except BadRecord as error:  # of this one ledger: the others are healed all the same
                tally = Tally(mark.ledger_id)
                tally.fail(str(error))
                await self._tell(tally)

    async def _end_limbo(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._limbo is None or now < self._limbo.not_before:
            return
        async with self._upkeep:
            report = await self._repair.repair_limbo()
        if report.ledgers_unrepaired:
            self._limbo.failed(now, self._config)
        else:
            self._limbo = None

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _is_due(self, mark: Mark) -> bool:
        backoff = self._backoffs.get(mark.ledger_id)
        return backoff is None or asyncio.get_running_loop().time() >= backoff.not_before

    async def _see_to(self, mark: Mark, view: ClusterView) -> None:
        found = await self._ledgers.read(mark.ledger_id)
        if found is None:
            self._left_behind.pop(mark.ledger_id, None)
            await self._marks.remove(mark.ledger_id)
            return
        record = found.record
        if is_left_behind(record, view):
            if self._is_given_up(record.ledger_id):
                await self._claimed(record.ledger_id, view, self._close)
            return
        self._left_behind.pop(record.ledger_id, None)
        if not needs(record, view):
            await self._marks.remove(mark.ledger_id)
        elif not (wanted := self._mine(record, view, overdue=self._is_overdue(mark))):
            if await self._held_for_others(record, view):
                await self._claimed(record.ledger_id, view, self._take_what_is_held)
            else:
                self._not_before(mark.ledger_id, self._config.others_seconds)
        else:
            overdue = self._is_overdue(mark)
            heal = partial(self._heal, chosen=lambda record: self._mine(record, view, overdue=overdue))
            if all(need.bookie == self._me for need in wanted):
                await heal(record.ledger_id, view)
            else:
                await self._claimed(record.ledger_id, view, heal)

    def _is_overdue(self, mark: Mark) -> bool:
        return self._now_ms() - mark.since_ms >= self._config.overdue_seconds * 1000

    def _not_before(self, ledger_id: int, seconds: float) -> None:
        """Others have to do something first."""
        if ledger_id in self._backoffs or len(self._backoffs) < BACKOFFS_MAX:
            backoff = self._backoffs.setdefault(ledger_id, _Backoff())
            backoff.not_before = asyncio.get_running_loop().time() + seconds

    def _is_given_up(self, ledger_id: int) -> bool:
        """Whether it has been left behind for so long that nobody will close it but us."""
        now = asyncio.get_running_loop().time()
        since = self._left_behind.setdefault(ledger_id, now)
        return now - since >= self._config.open_ledger_grace_seconds

    def _mine(self, record: LedgerRecord, view: ClusterView, *, overdue: bool = False) -> list[Need]:
        """What lacks here, and one place of each fragment at most that this bookie may take.

        Once it is `overdue`, those that would stand best have had their time.
        """
        mine: dict[int, Need] = {}
        for need in needs(record, view):
            if need.reason is Reason.LACKING and view.copies_nothing(need.bookie):
                need = replace(need, reason=Reason.LOST)
            if self._is_mine(need, view, overdue=overdue):
                mine.setdefault(need.fragment.first_entry, need)
        return list(mine.values())

    def _is_mine(self, need: Need, view: ClusterView, *, overdue: bool) -> bool:
        if need.reason is Reason.LACKING:
            return need.bookie == self._me  # what it lacks it fetches itself: all the rest is there
        return any(one.bookie == self._me for one in takers(need, view, second_best=overdue))

    async def _held_for_others(self, record: LedgerRecord, view: ClusterView) -> list[Need]:
        """Places of others that lack something of them, of which all is here.

        So what was moved here after the backup from which the metadata came is found again.
        """
        part, held = record.closed_part(), list[Need]()
        for need in needs(record, view):
            others = need.reason is Reason.LACKING and need.fragment.admits(self._me, in_place_of=need.bookie)
            if not others or need.fragment in [one.fragment for one in held]:
                continue
            assert part is not None
            async with self._upkeep:
                gaps = await self._inventory.missing_of(part, need.bookie, need.fragment)
            if not gaps:
                held.append(replace(need, reason=Reason.LOST))
        return held

    # --- one ledger --------------------------------------------------------------------------

    async def _take_what_is_held(self, ledger_id: int, view: ClusterView) -> None:
        found = await self._ledgers.read(ledger_id)
        held = [] if found is None else await self._held_for_others(found.record, view)

        def still(record: LedgerRecord) -> list[Need]:
            return [one for one in held if one.fragment in record.fragments]

        await self._heal(ledger_id, view, chosen=still)

    async def _heal(
        self, ledger_id: int, view: ClusterView, *, chosen: Callable[[LedgerRecord], list[Need]]
    ) -> None:
        tally = Tally(ledger_id)
        record: LedgerRecord | None = None
        try:
            async with self._upkeep:
                record = await self.healer.heal(tally, chosen)
        except COULD_NOT as error:
            tally.fail(str(error))
        await self._tell(tally)
        if not tally.why_not and (record is None or not needs(record, view)):
            await self._marks.remove(ledger_id)

    async def _close(self, ledger_id: int, view: ClusterView) -> None:
        """Nobody else will: its writer is gone, or whoever was recovering it."""
        tally = Tally(ledger_id)
        try:
            record = await self._peers.recover(ledger_id)
            self.ledgers_closed += record is not None
            if record is not None and needs(record, view):
                await self._marks.set(ledger_id, map(str, needs(record, view)), self._now_ms())
            elif record is not None:
                await self._marks.remove(ledger_id)
        except COULD_NOT as error:
            tally.fail(str(error))
        await self._tell(tally)

    async def _tell(self, tally: Tally) -> None:
        if not tally.why_not:
            self._backoffs.pop(tally.ledger_id, None)
            self.ledgers_healed += 1
            log.info("ledger %d: %d entries were copied here", tally.ledger_id, tally.entries)
            return
        self.failures += 1
        log.warning("ledger %d is not healed: %s", tally.ledger_id, tally.why_not)
        if len(self._backoffs) < BACKOFFS_MAX:
            backoff = self._backoffs.setdefault(tally.ledger_id, _Backoff())
            backoff.failed(asyncio.get_running_loop().time(), self._config)
        await self._marks.failed(tally.ledger_id, tally.why_not)

    # --- claims ------------------------------------------------------------------------------

    async def _claimed(
        self, ledger_id: int, view: ClusterView, work: Callable[[int, ClusterView], Awaitable[None]]
    ) -> None:
        """Does the work while the ledger is claimed, unless another has claimed it."""
        lease = await self._store.grant_lease(self._config.claim_lease_seconds)
        try:
            mine = Holder(self._me, self._now_ms())
            version = await holder.take(self._store, keys.healing(ledger_id), mine, lease)
            if version is not None:
                async with self._kept(ledger_id, lease, mine, version):
                    await work(ledger_id, view)
        finally:
            with suppress(MetadataError):  # it runs out by itself
                await self._store.revoke_lease(lease)

    @asynccontextmanager
    async def _kept(self, ledger_id: int, lease: Lease, mine: Holder, version: int) -> AsyncIterator[None]:
        """Inside, the claim is renewed and tells how far the work is. Losing it costs double work, and nothing else."""

        async def keep() -> None:
            key, stands = keys.healing(ledger_id), version
            before = self._repair.progress.bytes
            while True:
                await asyncio.sleep(TELL_SECONDS)
                try:
                    await self._store.keep_lease(lease)
                    done = replace(mine, bytes_done=self._repair.progress.bytes - before)
                    told = await holder.tell(self._store, key, done, stands)
                except (MetadataError, LeaseLost) as error:
                    log.info("the claim to ledger %d cannot be renewed: %s", ledger_id, error)
                else:
                    stands = told or stands

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
