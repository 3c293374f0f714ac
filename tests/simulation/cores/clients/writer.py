"""The writer of a simulated cluster: a shell over the real append pipeline, as ledgers/writing/write_handle.py is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from zlib import crc32

from bookie.wire import LacStatement, of_payloads
from ledgers.errors import AppendTimeout, LedgerError, NoSuchLedger, NotEnoughBookies
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    Accept,
    ChangeRecord,
    Confirm,
    FenceLac,
    Finish,
    OpenLane,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    StartOver,
)
from ledgers.protocol.phase import Phase
from tests.simulation.cores.ack_watch import AckWatch
from tests.simulation.cores.plans.plan import WRITER, Plan
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.metadata import Committed
from tests.simulation.engine.world import Stuck

from .lanes import tell_lac
from .process import QUORUM_SECONDS_MAX, Client, Site, describe

PENDING_BYTES_MAX = 24
"""Unconfirmed bytes past which an append waits."""

PAYLOAD_BYTES_MAX = 20


def payload_of(seed: int, entry_id: int, size: int) -> bytes:
    """What this entry says: the same in every run of the seed, whatever else is appended."""
    word = crc32(b"%d" % entry_id, seed & 0xFFFFFFFF).to_bytes(4, "little")
    return (word * (PAYLOAD_BYTES_MAX // len(word)))[:size]


class Writer(Client):
    """Appends, tells its last-add-confirmed, and closes, when it is told to."""

    def __init__(self, site: Site, created: Committed, plan: Plan) -> None:
        super().__init__(site, WRITER)
        self.version = created.version
        self.defers_sync = plan.deferred_sync
        self.pipeline = AppendPipeline(
            created.record,
            deferred_sync=plan.deferred_sync,
            delay_ensemble_change=plan.delay_ensemble_change,
        )
        self._puts_changes_off = plan.delay_ensemble_change
        self._forced_through = -1
        self._waiting: deque[tuple[int, ...]] = deque()
        self._is_closing = False
        self._ended = False
        self._progress_at = 0.0
        self._is_watched = False
        self._resent_through = -1
        self._acks = AckWatch(created.record.shape, self.site.checker)

    def begin(self) -> None:
        if self.pipeline.record.absent_positions:
            self.world.reached(Probe.BEGAN_WITHOUT)
        self.perform(self.pipeline.start())

    @property
    def is_done(self) -> bool:
        """Nobody waits: what was appended is confirmed, or accepted and nobody has asked for more."""
        pipeline = self.pipeline
        answered = pipeline.last_add_accepted if self.defers_sync else pipeline.last_add_confirmed
        is_forced = self._forced_through <= pipeline.last_add_confirmed
        return self._ended or (is_forced and answered == pipeline.last_add_pushed)

    # --- what the application does ----------------------------------------------------------------

    def append(self, sizes: tuple[int, ...]) -> None:
        """Entries of these sizes; they wait while too much is unconfirmed."""
        if not self._ended and not self._is_closing:
            self._waiting.append(sizes)
            self._take_waiting()

    def tell_lac(self) -> None:
        """An idle writer's readers shall see its last entries."""
        idle = self.pipeline.last_add_confirmed == self.pipeline.last_add_pushed
        if not self._ended and idle and self.pipeline.last_add_confirmed >= 0:
            for lane in self.lanes.values():
                tell_lac(lane)

    def force(self) -> None:
        """Everything appended so far is to be on disk."""
        if not self._ended and not self._is_closing:
            self._progress_at = self.world.now
            self._forced_through = self.pipeline.last_add_pushed
            self.perform(self.pipeline.force())
            self._watch_quorum()

    def close(self) -> None:
        """At once, whatever is unconfirmed: harsher than the product's, which waits for it."""
        self._is_closing = True
        self._waiting.clear()
        self.perform(self.pipeline.close())

    def goes_on(self) -> None:
        """A bookie that was behind may not be any more."""
        self._take_waiting()

    def _take_waiting(self) -> None:
        pipeline = self.pipeline
        while self._waiting and not pipeline.has_ended:
            if pipeline.pending_bytes >= PENDING_BYTES_MAX or pipeline.is_behind:
                return self.world.reached(Probe.WRITER_WAITED)
            if self.is_done:
                self._progress_at = self.world.now
            self._push(self._waiting.popleft())
            if self.defers_sync and pipeline.pending_bytes > PENDING_BYTES_MAX // 2:
                self.force()  # what is not on disk is kept in memory, and there is a bound
            self._watch_quorum()
        return None

    def _push(self, sizes: tuple[int, ...]) -> None:
        first = self.pipeline.last_add_pushed + 1
        payloads = [payload_of(self.world.seed, n, size) for n, size in enumerate(sizes, first)]
        for entry_id, payload in enumerate(payloads, first):
            self.site.checker.appended(entry_id, payload)
        signed = self.site.digester.sign(first, payloads)
        self.perform(self.pipeline.append(of_payloads(first, payloads, signed)))
        limit = PENDING_BYTES_MAX + PAYLOAD_BYTES_MAX * len(sizes)
        self.site.checker.bounded("unconfirmed bytes of the writer", self.pipeline.pending_bytes, limit)

    def _watch_quorum(self) -> None:
        """Ends the writer when nothing was confirmed for too long while something waits."""
        if self._is_watched or self.is_done:
            return None
        left = self._progress_at + QUORUM_SECONDS_MAX - self.world.now
        if left <= 0:
            self.world.reached(Probe.WRITER_TIMED_OUT)
            self.site.check_may_give_up(self.name, self._progress_at)
            self.perform(self.pipeline.give_up())
            timeout = AppendTimeout(
                self.pipeline.record.ledger_id, QUORUM_SECONDS_MAX, self.pipeline.failures
            )
            return self.perform(self.pipeline.fail(timeout))
        self._is_watched = True
        return self.later(left + 1e-6, self._look_again)

    def _look_again(self) -> None:
        self._is_watched = False
        self._watch_quorum()

    def answered(self, lane: int, through: int) -> None:
        self._acks.acked(lane, through)
        if self.pipeline.phase is Phase.WRITING:
            self._acks.check(self.pipeline.last_add_confirmed, self.pipeline.last_add_pushed, self.lanes)

    def check_whole(self) -> None:
        """Everything has worked for long: each place of the ensemble is served again. Raises Stuck.

        With changes put off a place may stay empty while there is an ack quorum.
        """
        size = self.pipeline.record.shape.ensemble_size
        is_writing = self.up and not self._ended and not self._is_closing
        if is_writing and not self._puts_changes_off and len(self.lanes) < size:
            raise Stuck(f"the writer serves {len(self.lanes)} of {size} places")

    # --- effects --------------------------------------------------------------------------------

    def machine(self) -> AppendPipeline:
        return self.pipeline

    def runs(self, machine: object) -> bool:
        return machine is self.pipeline

    def lac_statement(self) -> LacStatement | None:
        if self.pipeline.last_add_confirmed < 0:
            return None
        return self.site.digester.sign_lac(self.pipeline.last_add_confirmed, self.pipeline.confirmed_length)

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case Accept(through):
                    self.world.note("writer has %s accepted", through)
                    self._progress_at = self.world.now
                case OpenLane(number, bookie):
                    self._acks.opened(number, self.pipeline.record.fragments[-1].ensemble.index(bookie))
                    self.perform_shared(effect, recovery=False)
                    self.later(0.0, self._take_waiting)
                case Confirm(through):
                    self._confirm(through)
                case ChangeRecord(record):
                    self._resent_through = self.pipeline.last_add_pushed
                    self.change(record)
                case Finish(error):
                    self._finish(error)
                case FenceLac() | ReadFenced() | Recovered() | StartOver():
                    raise AssertionError(f"{effect} is not a writer's")
                case _:
                    self.perform_shared(effect, recovery=False)

    def _confirm(self, through: int) -> None:
        self.world.note("writer confirms %s", through)
        if through <= self._resent_through:
            self.world.reached(Probe.CONFIRMED_AFTER_CHANGE)
        if self.defers_sync and through <= self._forced_through:
            self.world.reached(Probe.FORCED)
        self._progress_at = self.world.now
        if self._ended:
            raise AssertionError("the writer confirmed after its end")
        self.site.checker.confirmed(through)
        if self._waiting:
            self._take_waiting()

    def _finish(self, error: LedgerError | None) -> None:
        self._ended = True
        self._waiting.clear()
        self.world.note("writer ends: %s", describe(error))
        match error:
            case None:
                self.world.reached(Probe.WRITER_CLOSED)
                self.site.checker.ended("the writer", self.pipeline.record)
            case NotEnoughBookies():
                self.world.reached(Probe.TOO_FEW_BOOKIES)
            case NoSuchLedger():
                self.world.reached(Probe.DELETED_UNDER_WRITER)


class AdvancedWriter(Writer):
    """The caller's ids, in any order: an entry leaves when all before it are there, as in AdvancedWriteHandle."""

    def __init__(self, site: Site, created: Committed, plan: Plan) -> None:
        super().__init__(site, created, plan)
        self._early: dict[int, int] = {}
        self._next = 0

    def append_as(self, entry_id: int, size: int) -> None:
        """One entry; an id that was used is refused, and changes nothing."""
        if self._ended or self._is_closing or entry_id < self._next or entry_id in self._early:
            return
        self._early[entry_id] = size
        if entry_id != self._next:
            self.world.reached(Probe.EARLY_ENTRY)
        due = []
        while self._next in self._early:
            due.append(self._early.pop(self._next))
            self._next += 1
        if due:
            self.append(tuple(due))

    def close(self) -> None:
        if self._early:
            self.world.reached(Probe.ENTRY_BEHIND_GAP)
        super().close()
