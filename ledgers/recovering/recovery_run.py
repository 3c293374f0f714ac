"""Recovers a ledger: the shell of the recovery machine, with restarts after conflicts."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial

from metadata.audit import Act, record_audit
from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.ledger_store import VersionedRecord

from ..bookie_client import LaneTerms
from ..bookies.lanes import Lanes
from ..bookies.replacements import find_replacements
from ..cluster import Cluster
from ..errors import BookieUnavailable, LedgerError, LedgerRecoveryFailed
from ..integrity.digest import Digester
from ..integrity.ledger_keys import LedgerKey
from ..protocol.ledger_effects import (
    ChangeRecord,
    CloseLane,
    Confirm,
    FenceLac,
    FindReplacements,
    Finish,
    OpenLane,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    RetryLater,
    Send,
    StartOver,
)
from ..protocol.ledger_recovery import Recovery
from ..record_change import RecordVersion, change_record, lost_record_error, unwrap_outcome
from ..tasks import Tasks
from .accepted_metadata import check_accepted, until_vouched_for
from .ledger_calls import LedgerCalls

RESTART_PAUSE_SECONDS_MAX = 2.0

SLOW_COPIES_FACTOR = 4
SLOW_COPIES_SECONDS_MIN = 0.01
"""How long recovery waits for entries to be written back to slow bookies: this multiple of the time that an ack quorum
took, but at least this minimum. It waits no longer, because a bookie that does not answer would delay every recovery by
seconds, and the record states which entries the bookie's copies may lack (rule W6)."""


async def recover(
    cluster: Cluster, found: VersionedRecord, digester: Digester, key: LedgerKey
) -> VersionedRecord:
    """Fences the ledger, finds its end and closes it; returns the closed record (rules R2 to R5).

    A closed ledger is returned unchanged, and no bookie is contacted. Concurrent recoveries all return the same end.
    Raises LedgerRecoveryFailed (the ledger stays in recovery, and nothing confirmed is lost), NoSuchLedger or
    MetadataUnavailable. LedgerRecoveryFailed is also raised if the metadata went back to an older copy that no operator
    has accepted, or if no bookie can vouch that it did not: with an older ensemble in the record, the ledger could be
    closed too early.
    """
    if found.record.is_closed:
        return found
    with ExitStack() as stack:
        if cluster.metrics is not None:
            stack.enter_context(cluster.metrics.recovering())
        if cluster.traces is not None:
            stack.enter_context(cluster.traces.recovering(found.record.ledger_id))
        return await _recover(cluster, found, digester, key)


async def _recover(
    cluster: Cluster, found: VersionedRecord, digester: Digester, key: LedgerKey
) -> VersionedRecord:
    for attempt in range(cluster.config.recovery_attempts_max):
        found = await mark_in_recovery(cluster, found)
        if found.record.is_closed:
            return found
        try:
            outcome = await RecoveryRun(cluster, found, digester, key).run()
        except LedgerRecoveryFailed:
            if (await _read_again(cluster, found.record)).version == found.version:
                raise
            outcome = None
        if outcome is not None:
            closed = outcome.record
            record_audit(
                Act.RECOVER, who=cluster.who, ledger_id=closed.ledger_id, last_entry=closed.last_entry
            )
            return outcome
        # Another client changed the record. Without a random pause, two recoveries could keep doing this forever.
        await asyncio.sleep(cluster.rng.uniform(0, min(RESTART_PAUSE_SECONDS_MAX, 0.05 * 2**attempt)))
        found = await _read_again(cluster, found.record)
    raise LedgerRecoveryFailed(found.record.ledger_id, "other clients kept changing its metadata; try again")


async def _read_again(cluster: Cluster, record: LedgerRecord) -> VersionedRecord:
    found = await cluster.ledgers.read_again(record)
    if found is None:
        raise await lost_record_error(cluster.ledgers, record.ledger_id)
    return found


async def mark_in_recovery(cluster: Cluster, found: VersionedRecord) -> VersionedRecord:
    """Changes the state from OPEN to IN_RECOVERY, unless another client has already done so (R2). Raises
    LedgerRecoveryFailed while the metadata is an older copy (W8)."""
    for _ in range(cluster.config.recovery_attempts_max):
        if found.record.is_closed:
            return found
        await check_accepted(cluster, found.record.ledger_id)
        if found.record.state is LedgerState.IN_RECOVERY:
            return found
        outcome = await change_record(cluster.ledgers, found.record.in_recovery(found.version), found.version)
        found, is_marked = unwrap_outcome(outcome, found.ledger_id)
        if is_marked:
            return found
    raise LedgerRecoveryFailed(found.record.ledger_id, "its writer kept changing its metadata; try again")


class RecoveryRun:
    """One run of the recovery machine on one record."""

    def __init__(self, cluster: Cluster, marked: VersionedRecord, digester: Digester, key: LedgerKey) -> None:
        self._cluster = cluster
        self._version = RecordVersion(cluster.ledgers, marked, cluster.marks, unless_held=True)
        self._machine = Recovery(marked.record, digester)
        self._ledger_id = marked.record.ledger_id
        self._calls = LedgerCalls(cluster, marked.record, key, fence=True)
        self._terms = LaneTerms(self._ledger_id, key, recovery=True, identity=marked.record.identity)
        traces = cluster.lane_traces(self._ledger_id)
        self._lanes = Lanes(cluster, self._terms, self, lambda: self._machine.frozen_lac, traces)
        self._tasks = Tasks(self._fail)
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[VersionedRecord | None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._progress_at = self._loop.time()
        self._writing_back_since = 0.0
        self._vouched = asyncio.Event()

    async def run(self) -> VersionedRecord | None:
        """Returns the closed record, or None if another client changed the record and recovery must start over.

        Waits briefly for the slowest copies of the entries written back.
        """
        try:
            self._tasks.start(self._fail_without_progress())
            self._perform(self._machine.start())
            outcome = await self._outcome
            await asyncio.wait([self._drained], timeout=self._slow_copies_seconds)
            if outcome is not None:
                self._send_end_notes(outcome.record)
            return outcome
        finally:
            self._lanes.close_all()
            await self._tasks.close()

    @property
    def _slow_copies_seconds(self) -> float:
        took = SLOW_COPIES_FACTOR * (self._progress_at - self._writing_back_since)
        return min(max(took, SLOW_COPIES_SECONDS_MIN), self._cluster.config.close_drain_seconds_max)

    def _send_end_notes(self, closed: LedgerRecord) -> None:
        for bookie, note in self._machine.end_notes(closed):
            self._cluster.bookies.send_note(bookie, self._terms, note)

    # --- events ---------------------------------------------------------------------------------

    def acked(self, lane: int, through: int) -> None:
        self._perform(self._machine.acked(lane, through))

    def written(self, lane: int, through: int) -> None:
        raise AssertionError(f"a recovery never defers a sync (lane {lane}, entry {through})")

    def lane_behind(self, lane: int, why: str) -> None:
        raise AssertionError(
            f"entries written back are bounded far below a lane's limit (lane {lane}: {why})"
        )

    def lane_caught_up(self, lane: int) -> None:
        raise AssertionError(f"lane {lane} was never behind")

    def lane_failed(self, lane: int, why: str) -> None:
        self._perform(self._machine.lane_failed(lane, why))

    def refused(self, lane: int, error: LedgerError) -> None:
        self._perform(self._machine.refused(lane, error))

    # --- effects --------------------------------------------------------------------------------

    def _perform(self, effects: list[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case FenceLac():
                    self._tasks.start(self._fence(effect))
                case ReadFenced():
                    self._tasks.start(self._read_fenced(effect))
                case OpenLane():
                    self._lanes.open(effect)
                case Send():
                    self._writing_back_since = self._writing_back_since or self._loop.time()
                    self._lanes.send(effect)
                case CloseLane():
                    self._lanes.close(effect)
                case Confirm():
                    self._progress_at = self._loop.time()
                case FindReplacements():
                    self._tasks.start(self._find_replacements(effect))
                case RetryLater():
                    self._tasks.start(self._retry())
                case ChangeRecord(record):
                    self._tasks.start(self._change(record))
                case Recovered(record):
                    self._end(VersionedRecord(record, self._version.version))
                case StartOver():
                    self._end(None)
                case Finish(error):
                    self._fail(error or LedgerRecoveryFailed(self._ledger_id, "it ended without a result"))
        if self._outcome.done() and not self._drained.done() and self._lanes.are_drained:
            self._drained.set_result(None)

    async def _fail_without_progress(self) -> None:
        """Ends a recovery whose write-backs reach no ack quorum. Fencing and reading have their own time limits."""
        limit = self._cluster.config.append_quorum_seconds_max
        while (left := self._progress_at + limit - self._loop.time()) > 0:  # noqa: ASYNC110 — a deadline that moves
            await asyncio.sleep(left)
        pipeline = self._machine.pipeline
        failures = pipeline.failures if pipeline else {}
        said = (
            "; ".join(f"{name}: {why}" for name, why in sorted(failures.items())) or "no bookie gave a reason"
        )
        self._fail(LedgerRecoveryFailed(self._ledger_id, f"no progress for {limit:g} s ({said})"))

    async def _fence(self, effect: FenceLac) -> None:
        fence = partial(self._calls.last_add_confirmed, effect.bookie)
        try:
            reply = await until_vouched_for(self._cluster, self._machine.fencing, fence, self._vouched)
        except BookieUnavailable as error:
            self._perform(self._machine.lac_failed(effect.position, error.why))
        else:
            self._perform(self._machine.lac_answered(effect.position, reply))
            if self._machine.fencing.is_vouched_for:
                self._vouched.set()

    async def _read_fenced(self, effect: ReadFenced) -> None:
        try:
            reply = await self._calls.page(effect.bookie, effect.first_entry, effect.last_entry)
            self._progress_at = self._loop.time()
        except BookieUnavailable as error:
            self._perform(self._machine.read_failed(effect.position, error.why))
        else:
            self._perform(self._machine.read_answered(effect.position, reply))

    async def _find_replacements(self, effect: FindReplacements) -> None:
        write_quorum = self._machine.record.shape.write_quorum
        chosen, rejected = await find_replacements(self._cluster, effect, write_quorum)
        self._perform(self._machine.replacements(chosen, rejected))

    async def _retry(self) -> None:
        await asyncio.sleep(self._cluster.config.retry_replacement_seconds)
        self._perform(self._machine.retry_replacements())

    async def _change(self, record: LedgerRecord) -> None:
        self._perform(await self._version.change(record, self._machine))

    def _end(self, outcome: VersionedRecord | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    def _fail(self, error: BaseException) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)
