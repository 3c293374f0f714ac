"""What writer and recoverer of a simulated cluster share: a process with lanes, calls and changes of metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bookie.wire import Columns, Frame, LacStatement, Status, join
from ledgers.append import AppendPipeline
from ledgers.digest import Digester
from ledgers.effects import (
    AppendEffect,
    CloseLane,
    FindReplacements,
    OpenLane,
    RecoveryEffect,
    RetryLater,
    Send,
)
from ledgers.errors import LedgerFenced, MetadataUnavailable
from ledgers.recovery import Recovery
from metadata.ledger_record import BookieRef, LedgerRecord

from .checks import Checker
from .servers import Committed, Lost, Outcome, SimulatedBookie, SimulatedMetadata
from .world import Action, Network, World

Reply = TypeVar("Reply")
Machine = AppendPipeline | Recovery

NOTICE_SECONDS = 12.0
"""How long a client takes to see that a lane is broken, or that a call is not answered."""

CALL_TRIES = 2


class Site:
    """What all clients of a simulated cluster share."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        metadata: SimulatedMetadata,
        bookies: Mapping[BookieRef, SimulatedBookie],
        digester: Digester,
    ) -> None:
        self.world = world
        self.network = network
        self.checker = checker
        self.metadata = metadata
        self.bookies = bookies
        self.digester = digester


class Client:
    """A process that a pause stops and a crash ends; a machine of its own follows in the subclasses."""

    def __init__(self, site: Site, name: str) -> None:
        self.site = site
        self.name = name
        self.is_dead = False
        self._paused_until = 0.0
        self._lanes: dict[int, SimulatedLane] = {}

    def pause(self, seconds: float) -> None:
        self.site.world.note(f"{self.name} pauses")
        self._paused_until = self.site.world.now + seconds

    def wake(self) -> None:
        self._paused_until = 0.0

    def deliver(self, event: Action) -> None:
        """Something reaches this process: now, after its pause, or never."""
        if self.is_dead:
            return
        if self.site.world.now < self._paused_until:
            self.site.world.at(self._paused_until, lambda: self.deliver(event))
        else:
            event()

    def later(self, seconds: float, event: Action) -> None:
        self.site.world.after(seconds, lambda: self.deliver(event))

    # --- effects that writer and recoverer share ------------------------------------------------

    def machine(self) -> Machine:
        raise NotImplementedError

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        raise NotImplementedError

    def lac_statement(self) -> LacStatement | None:
        raise NotImplementedError

    def perform_shared(self, effect: AppendEffect, *, recovery: bool) -> None:
        machine = self.machine()
        match effect:
            case OpenLane(number, bookie):
                self._lanes[number] = SimulatedLane(
                    self, number, self.site.bookies[bookie], machine, recovery
                )
            case Send(number, columns):
                self._lanes[number].send(columns)
            case CloseLane(number):
                self._lanes[number].close()
            case FindReplacements():
                self._find(effect, machine)
            case RetryLater():
                self.later(10.0, lambda: self.perform(machine.retry_replacements()))
            case _:
                raise AssertionError(f"{effect} is not shared")

    def _find(self, effect: FindReplacements, machine: Machine) -> None:
        def answer() -> None:
            rng = self.site.world.rng
            spare = [
                b for b in self.site.bookies.values() if b.ref not in effect.ensemble and self._seems_up(b)
            ]
            rng.shuffle(spare)
            chosen: dict[int, BookieRef] = {}
            for position in effect.failed:
                own = self.site.bookies[effect.ensemble[position]]
                if spare and not (self._seems_up(own) and rng.random() < 0.3):
                    chosen[position] = spare.pop().ref
                elif self._seems_up(own):
                    chosen[position] = own.ref
            self.site.world.note(f"{self.name} replaces {sorted((n, str(b)) for n, b in chosen.items())}")
            self.perform(machine.replacements(chosen, {}))

        self.later(self.site.world.rng.uniform(0.5, 6), answer)

    def _seems_up(self, bookie: SimulatedBookie) -> bool:
        return bookie.up or self.site.world.happens(0.05)

    def change(
        self, machine: Machine, record: LedgerRecord, version: int, then: Callable[[int], None]
    ) -> None:
        """Performs ChangeRecord; `then` hears the version that stands, first."""

        def decided(outcome: Outcome) -> None:
            match outcome:
                case Committed(stands, now):
                    then(now)
                    self.perform(machine.changed(stands))
                case Lost(found):
                    then(found.version)
                    self.perform(machine.conflicted(found.record))
                case _:
                    self.perform(machine.change_failed(MetadataUnavailable("silent")))

        self.site.metadata.change(
            self.name, record, version, lambda outcome: self.deliver(lambda: decided(outcome))
        )

    def call(
        self,
        kind: str,
        bookie: SimulatedBookie,
        serve: Callable[[Callable[[Reply], None]], None],
        then: Callable[[Reply | None], None],
        tries: int = CALL_TRIES,
    ) -> None:
        """A call to a bookie, tried again when no answer comes; None in the end."""
        world, network, is_decided = self.site.world, self.site.network, False

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
            if bookie.up:
                serve(answer)

        def answer(reply: Reply) -> None:
            delay = network.delay(f"{kind} reply", str(bookie.ref), self.name)
            if delay is not None:
                self.later(delay, lambda: decide(reply))

        delay = network.delay(kind, self.name, str(bookie.ref))
        if delay is not None:
            world.after(delay, arrive)
        self.later(NOTICE_SECONDS, lambda: decide(None))


class SimulatedLane:
    """One connection: in order both ways until it breaks, then silent, and noticed a while later.

    What was on its way when the client closed it still arrives, and is still acknowledged.
    """

    def __init__(
        self, client: Client, number: int, bookie: SimulatedBookie, machine: Machine, recovery: bool
    ) -> None:
        self._client = client
        self._number = number
        self._bookie = bookie
        self._machine = machine
        self._recovery = recovery
        self._generation = bookie.generation
        self._queue: list[Columns] = []
        self._is_broken = self._is_closed = False
        self._last_there = self._last_back = 0.0
        if not bookie.up:
            self._break()

    def send(self, columns: Columns) -> None:
        if not self._queue:
            self._client.later(self._client.site.world.rng.choice((0.0, 0.0, 3.0)), self._transmit)
        self._queue.append(columns)

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()

    def _transmit(self) -> None:
        if self._is_closed or not self._queue:
            return None
        columns, self._queue = join(self._queue), []
        statement = self._client.lac_statement()
        self._client.site.checker.told(statement)
        frame = Frame(self._machine.record.ledger_id, columns, statement, self._recovery)
        delay = self._client.site.network.delay("add", self._client.name, str(self._bookie.ref))
        if self._is_broken or delay is None:
            return self._break()
        self._last_there = max(self._last_there, self._client.site.world.now + delay)
        return self._client.site.world.at(self._last_there, lambda: self._arrive(frame))

    def _arrive(self, frame: Frame) -> None:
        if not self._bookie.up or self._bookie.generation != self._generation:
            return self._break()
        through = frame.columns.last_entry
        self._client.site.world.note(f"{self._client.name}#{self._number} {through} at {self._bookie.ref}")
        return self._bookie.append(frame, lambda status, _: self._answer(status, through))

    def _answer(self, status: Status, through: int) -> None:
        delay = self._client.site.network.delay("ack", str(self._bookie.ref), self._client.name)
        if self._is_broken or delay is None:
            return self._break()
        self._last_back = max(self._last_back, self._client.site.world.now + delay)
        event = lambda: self._client.deliver(lambda: self._answered(status, through))  # noqa: E731
        return self._client.site.world.at(self._last_back, event)

    def _answered(self, status: Status, through: int) -> None:
        machine, client = self._machine, self._client
        if status is Status.OK:
            client.perform(machine.acked(self._number, through))
        elif status in (Status.FENCED, Status.UNAUTHORIZED):
            client.perform(machine.refused(self._number, LedgerFenced(0, str(self._bookie.ref))))
        else:
            client.perform(machine.lane_failed(self._number, str(status)))

    def _break(self) -> None:
        if not self._is_broken:
            self._is_broken = True
            event = lambda: self._client.perform(self._machine.lane_failed(self._number, "broken"))  # noqa: E731
            self._client.later(self._client.site.world.rng.uniform(0, NOTICE_SECONDS), event)
