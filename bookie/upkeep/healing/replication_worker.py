"""The replication worker in every bookie: re-replicates those marked ledgers that the bookie can take.

Entries that a bookie lacks are fetched only by that bookie. A lost position is taken over by one of the bookies with
the best placement relative to the other copies, namely by the first one to claim the ledger; its claim lasts as long as
its lease. Failures are retried with exponential back-off, and the mark contains the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, replace
from functools import partial

from metadata import keys
from metadata.backup import hold
from metadata.errors import BadRecord
from metadata.healing import lease_lock
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.marks import Mark, Marks
from metadata.leases.held_key import HeldKey
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore

from ...upkeep_config import UpkeepConfig
from ..inventory.inventory import Inventory
from ..mending.healer import Healer
from ..mending.repair import COULD_NOT, Repair
from ..mending.replication_task import Reason, ReplicationTask
from ..polling import poll
from ..repair_client import Peers
from ..reports import Tally
from .cluster_view import ClusterView, look
from .replication_tasks import is_left_behind, replication_tasks, takers, to_fence

log = logging.getLogger(__name__)

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 5.0, 3600.0
"""Seconds until a ledger is retried after a failed attempt to heal it; doubled after each further failure, up to an
hour."""

OTHERS_SECONDS = 20.0
"""Seconds until a ledger that other bookies have to heal is checked again; healing it takes them several polls."""

OVERDUE_SECONDS = 600.0
"""If a ledger has been marked for this many seconds, any bookie that can heal it does so, because the best placed ones
have not."""

CLAIM_LEASE_SECONDS = 15.0
"""Seconds for which a ledger stays claimed by a bookie that died while healing it. Each renewal of the claim records
the progress."""

BACKOFFS_MAX = 100_000
"""Maximum number of ledgers with a back-off; any others are retried without one."""

MARKS_TIMED_MAX = 100_000
"""Maximum number of marks whose age is tracked; any further ledgers are left to the best placed bookies until other
marks are gone."""


@dataclass(slots=True)
class _Backoff:
    tries: int = 0
    not_before: float = 0.0

    def failed(self, now: float) -> None:
        wait = min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2 ** min(self.tries, 20))
        self.tries, self.not_before = self.tries + 1, now + wait


class ReplicationWorker:
    """Re-replicates to one bookie, one ledger at a time. Belongs to the event loop; `run` runs until cancelled."""

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
        self._limbo: _Backoff | None = _Backoff()  # ledgers enter limbo only before the bookie serves
        self._left_behind: dict[int, float] = {}
        self._marked_at: dict[int, float] = {}
        """Times at which this bookie first saw each mark, by its own clock; the marks' times are from other clocks."""
        self.ledgers_healed = self.ledgers_closed = self.failures = 0
        self.marked = 0
        """Number of ledgers with a mark when this bookie last read all marks."""

    @property
    def waiting(self) -> int:
        """Number of ledgers in back-off."""
        return len(self._backoffs)

    async def run(self) -> None:
        """Polls for marks until cancelled, or until the log has failed."""
        await poll(self.look_once, log, "healing was interrupted, and will be retried")

    async def look_once(self) -> None:
        """Re-replicates as much as is possible now. Raises BookieError, MetadataError and OSError.

        If the metadata was restored, does nothing until it is accepted, because the restored records may be outdated.
        """
        if await hold.read(self._store) is not None:
            return
        await self._end_limbo()
        view: ClusterView | None = None
        marked = set[int]()
        async for mark in self._marks.list():
            marked.add(mark.ledger_id)
            self._note_age(mark.ledger_id)
            if not self._is_due(mark):
                continue
            if view is None:
                view = await look(self._store, self._config.lost_bookie_ms)
            if self._me not in view.living:
                return  # another bookie has our name, or the lease was lost, so we must not judge copies
            try:
                await self._see_to(mark, view)
            except BadRecord as error:  # affects only this ledger's record, so still heal the other ledgers
                tally = Tally(mark.ledger_id)
                tally.fail(str(error))
                await self._record_result(tally)
        self.marked = len(marked)
        self._forget_all_but(marked)

    def _forget_all_but(self, marked: Set[int]) -> None:
        """Forgets ledgers that are no longer marked: they were healed by other bookies, or deleted."""
        self._marked_at = {one: at for one, at in self._marked_at.items() if one in marked}
        self._backoffs = {one: backoff for one, backoff in self._backoffs.items() if one in marked}
        self._left_behind = {one: since for one, since in self._left_behind.items() if one in marked}

    async def _end_limbo(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._limbo is None or now < self._limbo.not_before:
            return
        async with self._upkeep:
            report = await self._repair.repair_limbo()
        if report.ledgers_unrepaired:
            self._limbo.failed(now)
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
        record: LedgerRecord | None = found.record
        if self._me in to_fence(found.record, view):
            record = await self._fence(found)
        if record is None:
            return
        if is_left_behind(record, view):
            if self._is_given_up(record.ledger_id):
                await self._claimed(record.ledger_id, view, self._close)
            return
        self._left_behind.pop(record.ledger_id, None)
        if not replication_tasks(record, view):
            await self._remove_mark(record, view)
        elif not (wanted := self._mine(record, view, overdue=self._is_overdue(mark))):
            if await self._held_for_others(record, view):
                await self._claimed(record.ledger_id, view, self._take_what_is_held)
            else:
                self._not_before(mark.ledger_id, OTHERS_SECONDS)
        else:
            overdue = self._is_overdue(mark)
            heal = partial(self._heal, chosen=lambda record: self._mine(record, view, overdue=overdue))
            if all(task.bookie == self._me for task in wanted):
                await heal(record.ledger_id, view)
            else:
                await self._claimed(record.ledger_id, view, heal)

    def _note_age(self, ledger_id: int) -> None:
        if len(self._marked_at) < MARKS_TIMED_MAX:
            self._marked_at.setdefault(ledger_id, asyncio.get_running_loop().time())

    def _is_overdue(self, mark: Mark) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._marked_at.get(mark.ledger_id, now) >= OVERDUE_SECONDS

    def _not_before(self, ledger_id: int, seconds: float) -> None:
        """Defers a ledger that other bookies have to repair first."""
        if ledger_id in self._backoffs or len(self._backoffs) < BACKOFFS_MAX:
            backoff = self._backoffs.setdefault(ledger_id, _Backoff())
            backoff.not_before = asyncio.get_running_loop().time() + seconds

    def _is_given_up(self, ledger_id: int) -> bool:
        """Returns whether the ledger has been left open for the entire grace period, and should now be closed by this
        bookie."""
        now = asyncio.get_running_loop().time()
        since = self._left_behind.setdefault(ledger_id, now)
        return now - since >= self._config.open_ledger_grace_seconds

    def _mine(
        self, record: LedgerRecord, view: ClusterView, *, overdue: bool = False
    ) -> list[ReplicationTask]:
        """Returns the tasks for entries that this bookie lacks and, in each fragment, for at most one position that it
        may take over.

        With `overdue`, includes positions for which other bookies would be better placed.
        """
        mine: dict[int, ReplicationTask] = {}
        for task in replication_tasks(record, view):
            if task.reason is Reason.LACKING and view.copies_nothing(task.bookie):
                task = replace(task, reason=Reason.LOST)
            if self._is_mine(task, view, overdue=overdue):
                mine.setdefault(task.fragment.first_entry, task)
        return list(mine.values())

    def _is_mine(self, task: ReplicationTask, view: ClusterView, *, overdue: bool) -> bool:
        if task.reason is Reason.LACKING:
            return (
                task.bookie == self._me
            )  # a bookie's missing entries are fetched only by that bookie, which already has its other entries
        return any(one.bookie == self._me for one in takers(task, view, second_best=overdue))

    async def _held_for_others(self, record: LedgerRecord, view: ClusterView) -> list[ReplicationTask]:
        """Returns tasks for positions whose bookies lack entries, but of which this bookie has every entry.

        This covers entries that were moved here after the backup from which the metadata was restored.
        """
        part, held = record.closed_part(), list[ReplicationTask]()
        for task in replication_tasks(record, view):
            others = task.reason is Reason.LACKING and task.fragment.admits(self._me, in_place_of=task.bookie)
            if not others or task.fragment in [one.fragment for one in held]:
                continue
            assert part is not None
            async with self._upkeep:
                gaps = await self._inventory.missing_of(part, task.bookie, task.fragment)
            if not gaps:
                held.append(replace(task, reason=Reason.LOST))
        return held

    # --- one ledger --------------------------------------------------------------------------

    async def _take_what_is_held(self, ledger_id: int, view: ClusterView) -> None:
        found = await self._ledgers.read(ledger_id)
        held = [] if found is None else await self._held_for_others(found.record, view)

        def still(record: LedgerRecord) -> list[ReplicationTask]:
            return [one for one in held if one.fragment in record.fragments]

        await self._heal(ledger_id, view, chosen=still)

    async def _heal(
        self, ledger_id: int, view: ClusterView, *, chosen: Callable[[LedgerRecord], list[ReplicationTask]]
    ) -> None:
        tally = Tally(ledger_id)
        record: LedgerRecord | None = None
        try:
            async with self._upkeep:
                record = await self.healer.heal(tally, chosen)
        except COULD_NOT as error:
            tally.fail(str(error))
        await self._record_result(tally)
        if not tally.why_not and record is None:
            await self._marks.remove(ledger_id)
        elif not tally.why_not and record is not None and not replication_tasks(record, view):
            await self._remove_mark(record, view)

    async def _remove_mark(self, record: LedgerRecord, view: ClusterView) -> None:
        """Removes the mark, because all copies are complete. While an absent bookie still has to fence the ledger, the
        mark is kept, so that the absent bookie finds it on its return."""
        if to_fence(record, view):
            self._not_before(record.ledger_id, OTHERS_SECONDS)
        else:
            await self._marks.remove(record.ledger_id)

    async def _fence(self, found: VersionedRecord) -> LedgerRecord | None:
        """Fences a ledger that was closed while this bookie was away, so that its writer is refused here from now on.

        Returns None if fencing the ledger or recording the fence failed; another attempt is made later.
        """
        tally = Tally(found.ledger_id)
        try:
            await self._repair.fence(found.record)
            changed = await self._ledgers.change(found.record.fenced_by(self._me), found.version)
        except COULD_NOT as error:
            tally.fail(f"it could not be fenced here: {error}")
            await self._record_result(tally)
            return None
        ends = found.record.last_entry
        log.warning(
            "fenced ledger %d, which was closed without the entries stored here; it ends at entry %s",
            found.ledger_id,
            ends,
            extra={"ledger": found.ledger_id},
        )
        return changed.record

    async def _close(self, ledger_id: int, view: ClusterView) -> None:
        """Recovers and closes a ledger whose writer or recoverer is gone."""
        tally = Tally(ledger_id)
        try:
            record = await self._peers.recover(ledger_id)
            self.ledgers_closed += record is not None
            if record is not None and replication_tasks(record, view):
                await self._marks.set(ledger_id, map(str, replication_tasks(record, view)), self._now_ms())
            elif record is not None:
                await self._marks.remove(ledger_id)
        except COULD_NOT as error:
            tally.fail(str(error))
        await self._record_result(tally)

    async def _record_result(self, tally: Tally) -> None:
        if not tally.why_not:
            self._backoffs.pop(tally.ledger_id, None)
            self.ledgers_healed += 1
            log.info(
                "ledger %d: copied %d entries to this bookie",
                tally.ledger_id,
                tally.entries,
                extra={"ledger": tally.ledger_id},
            )
            return
        self.failures += 1
        log.warning(
            "ledger %d is not healed: %s", tally.ledger_id, tally.why_not, extra={"ledger": tally.ledger_id}
        )
        if len(self._backoffs) < BACKOFFS_MAX:
            backoff = self._backoffs.setdefault(tally.ledger_id, _Backoff())
            backoff.failed(asyncio.get_running_loop().time())
        await self._marks.failed(tally.ledger_id, tally.why_not)

    # --- claims ------------------------------------------------------------------------------

    async def _claimed(
        self, ledger_id: int, view: ClusterView, work: Callable[[int, ClusterView], Awaitable[None]]
    ) -> None:
        """Does the work under a claim on the ledger, unless another bookie has claimed the ledger. Losing the claim
        only duplicates work."""
        async with self._claim(ledger_id).kept() as is_ours:
            if is_ours:
                await work(ledger_id, view)

    def _claim(self, ledger_id: int) -> HeldKey:
        mine, before = LeaseLock(self._me, self._now_ms()), self._repair.progress.bytes

        def value(nonce: bytes) -> bytes:
            return lease_lock.encode(replace(mine, bytes_done=self._repair.progress.bytes - before), nonce)

        what = f"the claim to heal ledger {ledger_id}"
        return HeldKey(self._store, keys.healing(ledger_id), CLAIM_LEASE_SECONDS, value, what)
