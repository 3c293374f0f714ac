"""A bookie of the second layer: what the real service and bookie do with a request, over `life`.

Every request and reply passes through the real codec (`wire`). A damaged append breaks the bookie's connections; a
damaged call is never answered. `promises` sees each answer before it leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from bookie.serving.requests import too_large
from bookie.wire import (
    NO_ENTRY,
    Ack,
    AppendReply,
    AppendRequest,
    BadMessage,
    Frame,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from metadata.records.ledger_record import BookieRef
from metadata.records.notes import fragment_note
from metadata.records.notes.reconciling import NotedBy
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.cluster import LEDGER
from tests.simulation.cores.plans.plan import DiskFault, Figures
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.seams import OnAnswer
from tests.simulation.engine.world import World

from .harm import Harm
from .life import Life, page_of
from .neighbour import Neighbour
from .probes import WetProbe
from .rack import Rack
from .storage import Waiting
from .wire import Wire

CHECKPOINTS_WHILE_READING = 0.2

ANSWERS = {
    Status.WRITTEN: WetProbe.WRITTEN,
    Status.READ_ONLY: WetProbe.DISK_FULL,
    Status.UNAUTHORIZED: WetProbe.UNAUTHORIZED,
}


class WetBookie(Life):
    """Implements `seams.BookieServer`."""

    def __init__(self, world: World, ref: BookieRef, checker: Checker, figures: Figures, rack: Rack) -> None:
        rack.bookies[ref.bookie_id] = self
        super().__init__(world, ref, checker, figures, rack)
        self.wire = Wire(world.stream("wet wire", self.name), rack.messages)
        self._sequence = 0
        self._harm = Harm(self, figures.patience_seconds)
        self._neighbour = Neighbour(self, world.stream("wet neighbour", self.name))

    @property
    def noted(self) -> list[NotedBy]:
        notes = map(fragment_note.decode, self.index.notes.of(LEDGER).values())
        return [NotedBy(self.ref, note) for note in notes]

    # --- appends --------------------------------------------------------------------------------

    def append(self, incarnation: str, frame: Frame, answer: OnAnswer) -> None:
        self._sequence += 1
        sequence = self._sequence
        try:
            request = self.wire.append_request(AppendRequest(incarnation, sequence, (frame,)))
        except BadMessage as error:
            self._break(error)
            answer(Status.BAD_REQUEST, "the connection is broken")
            return
        (arrived,) = request.frames

        def reply(status: Status, detail: str) -> None:
            if status is Status.OK:
                self.promises.acknowledged(frame)
            elif status in ANSWERS:
                self.rack.reached(ANSWERS[status])
            try:
                (ack,) = self.wire.append_reply(AppendReply((Ack(sequence, status, detail),))).acks
            except BadMessage as error:
                self._break(error)
                answer(Status.BAD_REQUEST, "the connection is broken")
            else:
                answer(ack.status, ack.detail)

        self._append(request.incarnation, arrived, reply)

    def _append(self, incarnation: str, frame: Frame, reply: OnAnswer) -> None:
        if self._is_another(incarnation):
            reply(Status.WRONG_INCARNATION, f"this is incarnation {self.ref.incarnation}")
        elif too_large(frame):
            reply(Status.BAD_REQUEST, "a frame or entry is over its limit")
        else:
            self.storage.append(frame, Waiting(reply))
            self.commit_later()

    def _break(self, error: BadMessage) -> None:
        """Whoever sent this is cut off, and everybody else with it: a connection belongs to one generation."""
        self.rack.reached(WetProbe.MESSAGE_REFUSED)
        self.world.note("%s breaks its connections: %s", self.name, error)
        self.generation += 1

    # --- calls ----------------------------------------------------------------------------------

    def last_add_confirmed(self, request: LacRequest, answer: Callable[[LacReply], None]) -> None:
        def serve(status: Status, detail: str) -> None:
            self._through(lambda: answer(self.wire.lac_reply(self._lac(request, status, detail))))

        self._through(lambda: self._behind_fence(self.wire.lac_request(request), serve))

    def _lac(self, request: LacRequest, status: Status, detail: str) -> LacReply:
        if status is not Status.OK:
            return LacReply(status, detail=detail)
        self._check_fence(request)
        state = self.storage.state_of(request.ledger_id)
        told = state.last_add_confirmed
        last_entry = told.last_entry if told else NO_ENTRY
        self.promises.lac_answered(request.ledger_id, last_entry)
        if request.ledger_id == LEDGER:
            self.checker.lac_answered(self.ref, last_entry)
        latest = self.index.notes.latest(request.ledger_id) if request.fence else None
        known = Status.OK if state.known else Status.NO_SUCH_LEDGER
        return LacReply(known, told, vouched_since=1, latest=latest)

    def read(self, request: ReadRequest, answer: Callable[[ReadReply], None]) -> None:
        def serve(status: Status, detail: str) -> None:
            self._through(lambda: answer(self.wire.read_reply(self._page(request, status, detail))))

        self._through(lambda: self._behind_fence(self.wire.read_request(request), serve))

    def _page(self, request: ReadRequest, status: Status, detail: str) -> ReadReply:
        if status is not Status.OK:
            return ReadReply(status, detail=detail)
        self._check_fence(request)
        self.storage.while_reading = self._while_reading
        with self._harm.reads(request) as is_bad:
            reply = page_of(self.storage, request)
        if reply.status is not Status.IO_ERROR:
            self.promises.page_answered(request, reply, may_fail=is_bad or bool(self.promises.damaged))
        if reply.damaged:
            self.world.reached(Probe.READ_DAMAGED)
        return reply

    def _while_reading(self) -> None:
        """A checkpoint may end between the two looks into the index."""
        if self.storage.has_checkpoint and self.chance.happens(CHECKPOINTS_WHILE_READING):
            self.rack.reached(WetProbe.CHECKPOINT_WHILE_READING)
            self.storage.commit_checkpoint()

    def _through(self, pass_on: Callable[[], None]) -> None:
        """What was damaged on its way is heard of no more, nor is a machine without power."""
        if self.disk.is_off:
            return
        try:
            pass_on()
        except BadMessage as error:
            self.world.note("%s: a call broke: %s", self.name, error)

    def _behind_fence(self, request: LacRequest | ReadRequest, serve: OnAnswer) -> None:
        """Serves the request, behind a fence on disk where it asks for one (R1)."""
        if self._is_another(request.incarnation):
            return serve(Status.WRONG_INCARNATION, f"this is incarnation {self.ref.incarnation}")
        if not request.fence:
            return serve(Status.OK, "")
        if not self.storage.state_of(request.ledger_id).known:
            self.world.reached(Probe.FENCED_UNSEEN)
        self.storage.fence(request.ledger_id, Waiting(serve), request.credential.verifier)
        return self.commit_later()

    def _check_fence(self, sent: LacRequest | ReadRequest) -> None:
        """What was asked for with a fence is about to be answered."""
        if sent.fence:
            self.promises.fence_answered(sent.ledger_id)
            if sent.ledger_id == LEDGER:
                self.checker.fence_answered(self.ref)

    def _is_another(self, incarnation: str) -> bool:
        if incarnation == self.ref.incarnation:
            return False
        self.world.reached(Probe.WRONG_INCARNATION)
        return True

    # --- faults ---------------------------------------------------------------------------------

    def before_power_goes(self) -> None:
        if self.draws_faults:
            self._neighbour.burst()

    def committed(self) -> None:
        super().committed()
        self._harm.rot()

    def damage(self, fault: DiskFault) -> None:
        self._harm.happen(fault)

    def read_only(self, seconds: float) -> None:
        """Takes no new entries for a while, as a bookie whose disk is nearly full."""
        self.read_only_until = max(self.read_only_until, self.world.now + seconds)
        self.tell_core()
        self.world.after(seconds, self.tell_core)

    def mount(self, *, foreign: bool) -> None:
        self.is_foreign = foreign
        if foreign:
            self._harm.refuse_foreign_disk()

    def heal(self) -> None:
        self.is_healed, self.is_foreign = True, False
        self.read_only_until = 0.0
        self.tell_core()
        self.wire.is_healed = True
        self._harm.heal()
        self.commit_now()
