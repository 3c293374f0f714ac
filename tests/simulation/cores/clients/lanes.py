"""A simulated lane: frames in order to one bookie and answers in order back, until the connection breaks."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from bookie.wire import NO_ENTRIES, NO_NOTE, Columns, Frame, Status, join
from ledgers.bookies.lane_notes import LaneNotes
from ledgers.errors import LedgerError, LedgerFenced, Unauthorized
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import BookieRef
from tests.simulation.cores.probes import Probe

if TYPE_CHECKING:
    from .process import Client

NOTICE_SECONDS = 12.0
"""How long a client takes to see that a connection is broken."""

BACKLOG_BYTES_MAX = 48
"""What may wait on a writer's lane, sent or not; past it the bookie counts as failed (W6)."""

SENDS_LATE = 1 / 3
"""A share of the frames leave a while after they could: more is joined to them."""


class SimulatedLane:
    """One attempt to send to one bookie. What was on its way when the client closed it still arrives."""

    def __init__(
        self,
        client: Client,
        number: int,
        bookie: BookieRef,
        machine: AppendPipeline | Recovery,
        *,
        recovery: bool,
    ) -> None:
        self.number = number
        self._client = client
        self._ref = bookie
        self._bookie = client.site.bookies[bookie.bookie_id]
        self._machine = machine
        self._recovery = recovery
        self._is_deferred = client.defers_sync
        self._sync_wanted = False
        self._sent_through = -1
        self._generation = self._bookie.generation
        self._chance = client.world.stream("lane", client.name, bookie.bookie_id)
        self._queue: list[Columns] = []
        self._backlog_bytes = 0
        self._unanswered: deque[float] = deque()
        self._is_broken = self._is_closed = self._is_watched = self._is_behind = False
        self._last_there = self._last_back = 0.0
        self._note = None if recovery else LaneNotes(machine)
        self._noted = NO_NOTE
        if not self._bookie.up:
            self._break()

    # --- the client's side ----------------------------------------------------------------------

    def send(self, columns: Columns) -> None:
        """Queues entries; no columns at all tell only the last-add-confirmed."""
        if not self._queue:
            late = 3.0 if self._chance.happens(SENDS_LATE) else 0.0
            self._client.later(late, self._transmit)
        self._queue.append(columns)
        self._backlog_bytes += len(columns.payload)
        if self._backlog_bytes > BACKLOG_BYTES_MAX and not self._recovery and not self._is_behind:
            self._overflow()

    def force(self) -> None:
        """The next frame is to be answered when all before it is on disk."""
        self._sync_wanted = True
        self.send(NO_ENTRIES)

    def _overflow(self) -> None:
        client = self._client
        client.world.reached(Probe.BACKLOG_FULL)
        client.site.checker.bounded(f"bytes for {self._ref}", self._backlog_bytes, 2 * BACKLOG_BYTES_MAX)
        self._is_behind = True
        client.later(0.0, lambda: self._tell_behind("its backlog is over the bound"))

    def _tell_behind(self, why: str) -> None:
        machine = self._machine
        if self._client.runs(machine) and bool(why) == self._is_behind and not self._is_closed:
            assert isinstance(machine, AppendPipeline)
            self._client.perform(machine.lane_behind(self.number, why))
            self._client.goes_on()

    def _catch_up(self) -> None:
        if self._is_behind and self._backlog_bytes <= BACKLOG_BYTES_MAX // 2:
            self._is_behind = False
            self._client.world.reached(Probe.CAUGHT_UP)
            self._tell_behind("")

    def close(self) -> None:
        if not self._is_closed and self._noted and (note := self._new_note()):
            tell(self._client, self._ref, self._machine.record.ledger_id, note, recovery=self._recovery)
        self._is_closed = True
        self._queue.clear()

    def _transmit(self) -> None:
        if self._is_closed or not self._queue:
            return None
        columns, self._queue = join(self._queue), []
        statement = self._client.lac_statement()
        self._client.site.checker.told(statement)
        deferred = self._is_deferred and not self._sync_wanted
        self._sync_wanted = False
        ledger_id = self._machine.record.ledger_id
        note = self._new_note()
        frame = Frame(ledger_id, columns, statement, self._recovery, deferred_sync=deferred, note=note)
        through = self._through(columns)
        self._unanswered.append(self._client.world.now)
        self._watch()
        deliveries = self._client.site.network.deliveries("add", self._client.name, self._ref.bookie_id)
        if self._is_broken or not deliveries:
            return self._break()
        world = self._client.world
        self._last_there = max(self._last_there, world.now + deliveries[0])
        world.at(self._last_there, lambda: self._bookie.deliver(lambda: self._arrive(frame, through)))
        for delay in deliveries[1:]:
            world.after(delay, lambda: self._bookie.deliver(lambda: self._arrive_again(frame)))
        return None

    def _new_note(self) -> bytes:
        """As `QueuedLane` does."""
        note = NO_NOTE if self._note is None else self._note.now()
        if note is self._noted:
            return NO_NOTE
        self._noted = note
        return note

    def _through(self, columns: Columns) -> int:
        """What is on disk when this frame is answered OK; −1 where that is said by other answers."""
        if len(columns):
            self._sent_through = columns.last_entry
        elif not self._is_deferred:
            return -1
        return self._sent_through

    def _watch(self) -> None:
        """One timer for the oldest frame without an answer."""
        if not self._is_watched and self._unanswered and not self._is_closed:
            self._is_watched = True
            patience = self._client.site.figures.patience_seconds
            overdue_at = self._unanswered[0] + patience
            self._client.later(max(0.0, overdue_at - self._client.world.now), self._look_at_oldest)

    def _look_at_oldest(self) -> None:
        self._is_watched = False
        patience = self._client.site.figures.patience_seconds
        if self._unanswered and self._client.world.now >= self._unanswered[0] + patience - 1e-6:
            self._client.world.reached(Probe.LANE_TOO_SLOW)
            self._fail("no answer for too long")
        else:
            self._watch()

    # --- the bookie's side ----------------------------------------------------------------------

    def _arrive(self, frame: Frame, through: int) -> None:
        if self._bookie.generation != self._generation:
            return self._break()
        world = self._client.world
        world.note("%s#%s %s at %s", self._client.name, self.number, through, self._ref)
        if self._is_closed:
            world.reached(Probe.REORDERED_ACROSS_LANES)
        size = len(frame.columns.payload)
        return self._bookie.append(
            self._ref.incarnation, frame, lambda status, _: self._answer(status, through, size)
        )

    def _arrive_again(self, frame: Frame) -> None:
        """A second copy of a frame is delivered only once its lane is closed: within one it is told apart."""
        if self._is_closed and self._bookie.generation == self._generation:
            self._client.world.reached(Probe.FRAME_AFTER_RECONNECT)
            self._bookie.append(self._ref.incarnation, frame, _nobody_listens)

    def _answer(self, status: Status, through: int, size: int) -> None:
        deliveries = self._client.site.network.deliveries("ack", self._ref.bookie_id, self._client.name)
        if self._is_broken or not deliveries:
            return self._break()
        world = self._client.world
        self._last_back = max(self._last_back, world.now + deliveries[0])
        event = lambda: self._client.deliver(lambda: self._answered(status, through, size))  # noqa: E731
        return world.at(self._last_back, event)

    # --- back at the client ---------------------------------------------------------------------

    def _answered(self, status: Status, through: int, size: int) -> None:
        machine, client = self._machine, self._client
        if not client.runs(machine):
            return
        self._backlog_bytes -= size
        if self._unanswered:
            self._unanswered.popleft()
        if self._is_closed and status is Status.OK:
            client.world.reached(Probe.LATE_ACK)
        self._catch_up()
        if status is Status.OK:
            if through >= 0:
                client.perform(machine.acked(self.number, through))
                client.answered(self.number, through)
        elif status is Status.WRITTEN:
            assert isinstance(machine, AppendPipeline)
            client.perform(machine.written(self.number, through))
        elif status in (Status.FENCED, Status.UNAUTHORIZED):
            client.world.reached(Probe.WRITER_FENCED)
            client.perform(machine.refused(self.number, self._refusal(status)))
        else:
            self._fail(str(status))

    def _refusal(self, status: Status) -> LedgerError:
        ledger_id = self._machine.record.ledger_id
        if status is Status.UNAUTHORIZED:
            return Unauthorized(ledger_id)
        return LedgerFenced(ledger_id, f"bookie {self._ref} refuses its writer")

    def _fail(self, why: str) -> None:
        if self._client.runs(self._machine):
            self._client.perform(self._machine.lane_failed(self.number, why))

    def _break(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._client.later(self._chance.uniform(0, NOTICE_SECONDS), lambda: self._fail("broken"))


def tell(client: Client, ref: BookieRef, ledger_id: int, note: bytes, *, recovery: bool) -> None:
    """Tells a bookie something of the ledger, without being waited for; it may be lost."""
    bookie = client.site.bookies[ref.bookie_id]
    frame = Frame(ledger_id, recovery=recovery, note=note)
    for delay in client.site.network.deliveries("end", client.name, ref.bookie_id):
        arrive = partial(bookie.append_note, ref.incarnation, frame)
        client.world.after(delay, partial(bookie.deliver, arrive))


def tell_lac(lane: SimulatedLane) -> None:
    """Sends the last-add-confirmed without entries."""
    lane.send(NO_ENTRIES)


def _nobody_listens(_: Status, __: str) -> None:
    """The client has closed this lane and hears no answer."""
