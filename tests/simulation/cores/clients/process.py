"""What the clients of a simulated cluster share: lanes, calls, changes of metadata, and looking for replacements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bookie.wire import LacStatement
from ledgers.errors import LedgerError, MetadataUnavailable
from ledgers.integrity.digest import Digester
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    AppendEffect,
    CloseLane,
    FindReplacements,
    Force,
    OpenLane,
    RecoveryEffect,
    RetryLater,
    Send,
)
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import Figures
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.metadata import Committed, Lost, Outcome, SimulatedMetadata
from tests.simulation.cores.site.network import Network
from tests.simulation.cores.site.node import Node
from tests.simulation.cores.site.servers import SimulatedBookie
from tests.simulation.engine.world import Action, Stuck, World

from .lanes import SimulatedLane

Reply = TypeVar("Reply")
Machine = AppendPipeline | Recovery

CALL_SECONDS = 12.0
"""How long a client waits for the answer of one call to a bookie."""

CALL_TRIES = 2

RETRY_SECONDS = 10.0

QUORUM_SECONDS_MAX = 60.0
"""A writer or recovery that has no ack quorum for so long gives up."""


@dataclass(slots=True)
class Site:
    """What all clients of a simulated cluster share.

    `unregistered`: bookies whose lease is lost. `must_work_from`: nothing is wrong from then on, and nothing lost
    that a ledger cannot do without.
    """

    world: World
    network: Network
    checker: Checker
    metadata: SimulatedMetadata
    bookies: Mapping[str, SimulatedBookie]
    digester: Digester
    figures: Figures
    unregistered: set[str]
    must_work_from: float

    def check_may_give_up(self, who: str, since: float) -> None:
        """Whoever waited in vain did so while something was wrong. Raises Stuck."""
        if since >= self.must_work_from:
            raise Stuck(f"{who} made no progress though everything works")


class Client(Node):
    """One life of a client process: a pause stops it, a crash ends it."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site.world, name)
        self.site = site
        self.lanes: dict[int, SimulatedLane] = {}
        self.version = 0
        self.defers_sync = False
        self._busy: dict[str, int] = {}

    def begin(self) -> None:
        """The process starts its work."""
        raise NotImplementedError

    def die(self) -> None:
        """Everything this process knew is gone."""
        self.world.note("%s dies", self.name)
        self.up = False

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left unanswered; must hold when nothing more can happen."""
        raise NotImplementedError

    def later(self, seconds: float, event: Action) -> None:
        self.world.after(seconds, lambda: self.deliver(event))

    def begin_waiting(self, what: str, limit: int = 1) -> None:
        """Counts what this client waits for, which must stay within its bound (I12)."""
        count = self._busy[what] = self._busy.get(what, 0) + 1
        if count > limit:
            self.site.checker.bounded(f"{self.name}, {what}", count, limit)

    def end_waiting(self, what: str) -> None:
        self._busy[what] -= 1

    def close_lanes(self) -> None:
        for lane in self.lanes.values():
            lane.close()
        self.lanes.clear()
        self._busy.clear()

    # --- effects that writer and recoverer share ------------------------------------------------

    def machine(self) -> Machine:
        """The machine whose effects are performed."""
        raise NotImplementedError

    def runs(self, machine: Machine) -> bool:
        """Whether this is still the machine at work: what was asked for an earlier one is of no use."""
        raise NotImplementedError

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        raise NotImplementedError

    def lac_statement(self) -> LacStatement | None:
        raise NotImplementedError

    def perform_shared(self, effect: AppendEffect, *, recovery: bool) -> None:
        match effect:
            case OpenLane(number, bookie):
                self.lanes[number] = SimulatedLane(self, number, bookie, self.machine(), recovery=recovery)
                limit = self.machine().record.shape.ensemble_size
                self.site.checker.bounded(f"{self.name}, open lanes", len(self.lanes), limit)
            case Send(number, columns):
                self.lanes[number].send(columns)
            case Force(number):
                self.lanes[number].force()
            case CloseLane(number):
                lane = self.lanes.pop(number, None)
                if lane is not None:
                    lane.close()
            case FindReplacements():
                self._find(effect)
            case RetryLater():
                self._retry_later()
            case _:
                raise AssertionError(f"{effect} is not shared")

    def _retry_later(self) -> None:
        machine = self.machine()
        self.begin_waiting("looking again")

        def again() -> None:
            if self.runs(machine):
                self.end_waiting("looking again")
                self.perform(machine.retry_replacements())

        self.later(RETRY_SECONDS, again)

    def answered(self, lane: int, through: int) -> None:
        """The machine was handed an ack and has done what follows from it."""

    def goes_on(self) -> None:
        """A lane has fallen behind, or caught up."""

    # --- replacements ---------------------------------------------------------------------------

    def _find(self, effect: FindReplacements) -> None:
        """As `ledgers.bookies.replacements`: other bookies first, a failed one in its own place where none is."""
        machine = self.machine()
        self.begin_waiting("finding replacements")

        def answer() -> None:
            if not self.runs(machine):
                return
            self.end_waiting("finding replacements")
            chosen = self._choose(effect)
            self.world.note("%s replaces %s", self.name, [(n, str(b)) for n, b in chosen.items()])
            self._note_choice(effect, chosen)
            self.perform(machine.replacements(chosen, {}))

        self.later(self.world.stream("find", self.name).uniform(0.5, 6), answer)

    def _choose(self, effect: FindReplacements) -> dict[int, BookieRef]:
        chance = self.world.stream("choose", self.name)
        taken = {bookie.bookie_id for bookie in effect.ensemble}
        spare = [name for name in self.site.bookies if name not in taken and self._seems_alive(name)]
        if effect.in_place:
            spare = []
            self.world.reached(Probe.WAITED_IN_PLACE)
        chosen: dict[int, BookieRef] = {}
        for position in effect.failed:
            own = effect.ensemble[position]
            if spare:
                chosen[position] = self.site.bookies[spare.pop(chance.below(len(spare)))].ref
            elif self._answers_as(own):
                chosen[position] = own
        return chosen

    def _seems_alive(self, name: str) -> bool:
        """Registered, and gave a sign of life; it may die the moment after."""
        if name in self.site.unregistered:
            return False
        dead = self.site.figures.dead_replacements
        return self.site.bookies[name].up or (
            dead > 0 and self.world.stream("dead", self.name, name).happens(dead)
        )

    def _answers_as(self, bookie: BookieRef) -> bool:
        server = self.site.bookies[bookie.bookie_id]
        return server.up and server.ref == bookie

    def _note_choice(self, effect: FindReplacements, chosen: Mapping[int, BookieRef]) -> None:
        reached = self.world.reached
        if len(chosen) < len(effect.failed):
            reached(Probe.NO_REPLACEMENT)
        new = [bookie for n, bookie in chosen.items() if bookie != effect.ensemble[n]]
        if len(new) < len(chosen):
            reached(Probe.PLACE_TAKEN_BACK)
        if len(new) > 1:
            reached(Probe.TWO_REPLACED_AT_ONCE)
        if any(not self.site.bookies[bookie.bookie_id].up for bookie in new):
            reached(Probe.REPLACEMENT_DEAD)

    # --- metadata and calls -----------------------------------------------------------------------

    def change(self, record: LedgerRecord) -> None:
        """Performs ChangeRecord at the version this client knows."""
        machine = self.machine()
        self.begin_waiting("changing the record")

        def decided(outcome: Outcome) -> None:
            if not self.runs(machine):
                return
            self.end_waiting("changing the record")
            match outcome:
                case Committed(stands, version):
                    self.version = version
                    self.perform(machine.changed(stands))
                case Lost(found):
                    self._note_conflict(found)
                    self.version = found.version if found else 0
                    self.perform(machine.conflicted(found.record if found else None))
                case _:
                    self.perform(machine.change_failed(MetadataUnavailable("silent")))

        self.site.metadata.change(
            self.name,
            record,
            self.version,
            self.hears(decided),
            unless_held=isinstance(machine, Recovery),
        )

    def _note_conflict(self, found: Committed | None) -> None:
        if found is not None and found.record.state is LedgerState.IN_RECOVERY:
            self.world.reached(Probe.CHANGE_MET_RECOVERY)
        elif found is not None and not found.record.is_closed:
            self.world.reached(Probe.CHANGE_MET_ANOTHER)
        elif found is not None:
            self.world.reached(Probe.CHANGE_MET_CLOSE)

    def call(
        self,
        kind: str,
        bookie: BookieRef,
        serve: Callable[[SimulatedBookie, Callable[[Reply], None]], None],
        then: Callable[[Reply | None], None],
        tries: int = CALL_TRIES,
    ) -> None:
        """A call to a bookie, tried again when no answer comes; None in the end. It may arrive twice."""
        network, name, server = self.site.network, bookie.bookie_id, self.site.bookies[bookie.bookie_id]
        is_decided = False

        def decide(reply: Reply | None) -> None:
            nonlocal is_decided
            if is_decided:
                return
            is_decided = True
            if reply is None and tries > 1:
                self.call(kind, bookie, serve, then, tries - 1)
            else:
                then(reply)

        def arrive() -> None:
            generation = server.generation

            def answer(reply: Reply) -> None:
                if server.generation == generation:
                    for delay in network.deliveries(f"{kind} reply", name, self.name):
                        self.later(delay, lambda: decide(reply))

            serve(server, answer)

        there = network.deliveries(kind, self.name, name)
        if len(there) > 1:
            self.world.reached(Probe.UNARY_TWICE)
        for delay in there:
            self.world.after(delay, lambda: server.deliver(arrive))
        self.later(CALL_SECONDS, lambda: decide(None))


def describe(error: LedgerError | None) -> str:
    """What ended a machine, for the trace."""
    return "well" if error is None else f"{type(error).__name__}: {error}"
