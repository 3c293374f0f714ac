"""The auditor: an elected bookie that watches all of the metadata and marks under-replicated ledgers.

It is elected by means of a lease, so another bookie takes over within seconds of its death. It counts how long each
bookie is absent. Periodically, and whenever a bookie is lost, new or to be drained, the auditor examines all records
and marks those that need re-replication. It also truncates logs by their retention (`retention_rounds`), and retires
tombstones (`retirement`). Two auditors at once would do no harm.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from metadata import keys
from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.healing import absent_bookies, lease_lock
from metadata.healing.absent_bookies import Absence
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.marks import Mark, Marks
from metadata.leases.held_key import HeldKey
from metadata.records.ledger_record import BookieRef, LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.segment_deletion import UnneededSegments
from metadata.store import MetadataStore

from ...upkeep_config import UpkeepConfig
from ..logs.retention_rounds import RetentionRounds
from ..mending.replication_task import Reason, ReplicationTask
from ..polling import LOOK_SECONDS
from ..repair_client import Peers
from . import published_counts
from .cluster_view import ClusterView, look
from .ledger_counts import LedgerCounts, all_ledgers
from .reachability import Reachability
from .replication_tasks import is_left_behind, replication_tasks, takers, to_fence
from .retirement import Retirement
from .watched_ledgers import WatchedLedgers

# Counts how long bookies are absent, by the auditor's own monotonic clock. Pure.
#
# Clocks are never compared with each other. An auditor adds the time between two of its polls to the recorded counts,
# which earlier auditors wrote. So an absence is never counted as longer than it was, whatever wall clocks do.

TELL_SHARE = 10
"""Once a bookie is lost, its absence is recorded again only when it has grown by 1/TELL_SHARE of the recorded value."""


class AbsenceCounts:
    """Absences that one auditor has counted but not recorded yet."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._unrecorded_ms: dict[str, float] = {}
        """Unrecorded milliseconds of absence of each bookie that was absent at the last poll."""

    def interrupted(self) -> None:
        """Notes that the auditor could not poll the bookies' states, or lost its lease, so that the time until its next
        poll is not counted as absence."""
        self._unrecorded_ms = {}

    def look(self, recorded_ms: Mapping[str, int], now: float, wait_ms: int) -> dict[str, int]:
        """Updates the counts of the absent bookies, given the recorded counts; returns the counts to record now, by
        bookie name.

        As long as a count is below `wait_ms`, the value at which the bookie counts as lost, it is recorded at every
        poll.
        """
        passed_ms, self._looked_at = (now - self._looked_at) * 1000, now
        before = self._unrecorded_ms
        self._unrecorded_ms = {
            name: before[name] + passed_ms if name in before else 0.0 for name in recorded_ms
        }
        due = {
            name: ms for name, ms in self._unrecorded_ms.items() if _is_due(ms, recorded_ms[name], wait_ms)
        }
        self._unrecorded_ms |= dict.fromkeys(due, 0.0)
        return {name: recorded_ms[name] + round(ms) for name, ms in due.items()}


def _is_due(unrecorded_ms: float, recorded_ms: int, wait_ms: int) -> bool:
    return unrecorded_ms >= 1 and (recorded_ms < wait_ms or unrecorded_ms * TELL_SHARE >= recorded_ms)


log = logging.getLogger(__name__)

LEASE_SECONDS = 3 * LOOK_SECONDS
"""Maximum seconds without an auditor after the current one has died; the auditor renews its lease at each poll."""

CHANGED_SECONDS_MIN = 10.0
"""Minimum seconds from one audit to the next if records have changed."""

CHANGED_SHARE = 20.0
"""If records have changed, the next audit is due after this multiple of the previous audit's duration."""

BRAKE_LOG_SECONDS = 30.0
"""Seconds for which many bookies must be absent before the auditor logs their absence: longer than a cluster takes to
start."""

NOT_CLOSED = "it is not closed, and seems to have no writer that would close it"
NO_TAKER = "no other living, writable bookie with healing enabled may take its place: add one"


class NoLongerAuditor(MetadataError):
    """The lease was lost during an audit; the results of that audit are discarded."""


class Auditor:
    """For one bookie, takes part in the election of the auditor, and audits while elected.

    Belongs to the event loop; `run` runs until cancelled.
    """

    def __init__(
        self,
        store: MetadataStore,
        me: BookieRef,
        config: UpkeepConfig,
        clock: Callable[[], float],
        peers: Peers,
    ) -> None:
        self._store = store
        self._me = me
        self._config = config
        self._clock = clock
        self._marks = Marks(store)
        self._office = LeaseLock(me, 0)
        self._held = HeldKey(
            store, keys.AUDITOR, LEASE_SECONDS, self._encoded_office, "the office of auditor"
        )
        self._absences = AbsenceCounts()
        self._reachability = Reachability(peers, config.reach_seconds)
        self.retention = RetentionRounds(store)
        self._retirement = Retirement(store, config.tombstone_seconds)
        self._ledgers = WatchedLedgers(store)
        self._audited: object = None
        self._audited_at = 0.0
        self._braked_at: float | None = None
        self.audits = 0
        self.audit_seconds = 0.0
        self.last = LedgerCounts(ClusterView(config.lost_bookie_ms))
        """Result of the last complete audit; `audits`: number of audits; `audit_seconds`: duration of the last one."""

    @property
    def is_elected(self) -> bool:
        """Whether this bookie is the auditor, as far as it knows."""
        return not self._held.why_lost

    async def run(self) -> None:
        """Tries to get elected, and audits while elected."""
        try:
            while True:
                try:
                    if not await self._is_elected():
                        await self._ledgers.stop()
                    else:
                        self._ledgers.start()
                        view = await self.look_once()
                        await self.retention.look()
                        if await self._retirement.look():
                            self._audited = None  # another audit is due
                        await self._publish_office(view)
                except MetadataError as error:
                    log.log(weight(error), "the audit was interrupted, and will be retried: %s", error)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self._reachability.stop()
            await self._ledgers.stop()
            await self._held.give_up()

    async def _is_elected(self) -> bool:
        with self._interrupting():
            if await self._held.renew():
                return True
        self._absences.interrupted()  # another auditor may have counted in the meantime
        found = await self._store.get(keys.AUDITOR)
        if found is not None and not self._held.is_ours(found):
            return False
        self._office = LeaseLock(self._me, self._now_ms())
        if not await self._held.take():
            await self._held.give_up()
            return False
        log.info("bookie %s is the auditor", self._me)
        return True

    async def look_once(self) -> ClusterView:
        """Counts absences, and audits if something has changed or an audit is due. Raises MetadataError."""
        with self._interrupting():
            view = await self._note_absences(await look(self._store, self._config.lost_bookie_ms))
        self._log_brake(view)
        state, began = _state(view), asyncio.get_running_loop().time()
        is_listed = self._ledgers.is_whole or not self._ledgers.is_started
        if is_listed and (state != self._audited or began - self._audited_at >= self._seconds_to_next()):
            self._ledgers.has_changed = False
            self.last = await self.audit(view)
            counts = published_counts.encode(self.last)
            if counts != self._office.counts:
                self._office = replace(self._office, counts=counts, counted_ms=self._now_ms())
            self.audits += 1
            self._audited, self._audited_at = state, asyncio.get_running_loop().time()
            self.audit_seconds = self._audited_at - began
        return view

    @contextmanager
    def _interrupting(self) -> Iterator[None]:
        """Interrupts the counting of absences until the next poll if the auditor cannot determine which bookies are
        alive. Other failures do not interrupt the counting."""
        try:
            yield
        except MetadataError:
            self._absences.interrupted()
            raise

    async def _publish_office(self, view: ClusterView) -> None:
        """Writes unreachable bookies and silent cursors to the auditor's key if they have changed. Raises
        MetadataError."""
        seen = self._reachability.look(view.living)
        found = self._office.unreachable if seen is None else seen
        silent = self.retention.silent_cursors
        for name in found.keys() - self._office.unreachable.keys():
            one = found[name]
            log.error(
                "bookie %s is alive, but cannot be reached at its address %s: %s", name, one.address, one.why
            )
        self._office = replace(self._office, unreachable=found, silent_cursors=silent)
        await self._held.publish()

    def _encoded_office(self, nonce: bytes) -> bytes:
        return lease_lock.encode(self._office, nonce)

    def _log_brake(self, view: ClusterView) -> None:
        """Logs that re-replication is suspended because many bookies are absent, except while a cluster starts."""
        now = asyncio.get_running_loop().time()
        if not view.is_braked:
            self._braked_at = None
        elif self._braked_at is None:
            self._braked_at = now
        elif now - self._braked_at >= BRAKE_LOG_SECONDS:
            names = ", ".join(view.unexpectedly_absent)
            log.error("%s are absent: nothing is re-replicated while this many bookies are absent", names)
            self._braked_at = math.inf  # logged once per suspension

    def _seconds_to_next(self) -> float:
        """Returns the seconds from the last audit to the next one; if records have changed, the time is shorter."""
        if not self._ledgers.has_changed:
            return self._config.audit_seconds
        return min(self._config.audit_seconds, max(CHANGED_SECONDS_MIN, self.audit_seconds * CHANGED_SHARE))

    async def _note_absences(self, view: ClusterView) -> ClusterView:
        """Records how long bookies have been absent; returns the view with the recorded counts."""
        alive = {bookie.bookie_id for bookie in view.living}
        for name, incarnation in view.formatted.items():
            if name not in alive and name not in view.absent_ms:
                await absent_bookies.forget(
                    self._store, name
                )  # the absence was that of an earlier incarnation
                await absent_bookies.note(self._store, Absence(name, incarnation, self._now_ms()))
        for name in view.absent_ms:
            if name in alive:
                await absent_bookies.forget(self._store, name)
        absent_ms = {name: view.absent_ms.get(name, 0) for name in sorted(view.formatted.keys() - alive)}
        counted = self._absences.look(absent_ms, asyncio.get_running_loop().time(), view.wait_ms)
        for name, ms in counted.items():
            await absent_bookies.count(self._store, name, view.formatted[name], ms)
        return replace(view, absent_ms=absent_ms | counted)

    async def audit(
        self, view: ClusterView, on_ledger: Callable[[int], object] = lambda _: None
    ) -> LedgerCounts:
        """Examines all records, sets missing marks and removes obsolete ones; deletes ledgers that no log needs.

        `on_ledger` is called with the number of ledgers examined so far.
        """
        unneeded, counts = UnneededSegments(self._store), LedgerCounts(view)
        marks = {mark.ledger_id: mark async for mark in self._marks.list()}
        ledgers = self._ledgers if self._ledgers.is_started else LedgerStore(self._store)

        def is_deleted(tombstone: Tombstone) -> None:
            counts.deleted += 1
            self._retirement.see(tombstone)

        async for found in all_ledgers(ledgers.list_with_deleted(), on_ledger, is_deleted):
            await self._keep_office()
            if await unneeded.delete(found):
                continue
            record, mark = found.record, marks.pop(found.ledger_id, None)
            tasks, is_left = replication_tasks(record, view), is_left_behind(record, view)
            counts.add(record, tasks, is_left)
            await self._mark(record, tasks, is_left, mark, view)
        for ledger_id in marks:
            await self._marks.remove(ledger_id)  # deleted in the meantime
        return counts

    async def _keep_office(self) -> None:
        """Renews the lease, because an audit of a million ledgers takes longer than the lease lasts. Raises
        NoLongerAuditor."""
        if self.is_elected and self._held.age_seconds >= LOOK_SECONDS and not await self._held.renew():
            raise NoLongerAuditor("another bookie is the auditor, or will be soon")

    async def _mark(
        self,
        record: LedgerRecord,
        found: Sequence[ReplicationTask],
        is_left: bool,
        mark: Mark | None,
        view: ClusterView,
    ) -> None:
        fences = [f"{bookie} is to fence it" for bookie in to_fence(record, view)]
        reasons = [*([NOT_CLOSED] if is_left else []), *map(str, found), *fences]
        if not reasons:
            if mark is not None:
                await self._marks.remove(record.ledger_id)
            return
        await self._marks.set(record.ledger_id, reasons, self._now_ms())
        stuck = [task for task in found if task.reason is not Reason.LACKING and not takers(task, view)]
        if stuck and (mark is None or NO_TAKER not in mark.why_not):
            await self._marks.failed(record.ledger_id, f"{stuck[0]}: {NO_TAKER}")

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _state(view: ClusterView) -> object:
    """Returns the part of the view whose change makes a new audit due."""
    formatted = [BookieRef(name, incarnation) for name, incarnation in view.formatted.items()]
    return (
        view.is_braked,
        frozenset((bookie, view.fate(bookie), view.is_missed(bookie)) for bookie in formatted),
        frozenset((one.bookie, one.fault_domain, one.writable) for one in view.living.values()),
    )
