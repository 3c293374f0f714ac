"""One plan, one run: the cluster is built, everything in the plan happens, then all is calm and must end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ledgers.integrity.digest import Crc32cDigester
from metadata.records.ledger_record import BookieRef, Fragment, Lacking, LedgerRecord, Shape
from tests.simulation.cores.clients.deleter import Deleter
from tests.simulation.cores.clients.process import Client, Site
from tests.simulation.cores.clients.readers import PlainReader, TailReader
from tests.simulation.cores.clients.recoverer import Recoverer
from tests.simulation.cores.clients.writer import AdvancedWriter, Writer
from tests.simulation.cores.plans import plan as plans
from tests.simulation.cores.plans.plan import Plan
from tests.simulation.cores.site.faults import perform
from tests.simulation.cores.site.metadata import SimulatedMetadata
from tests.simulation.cores.site.network import Network
from tests.simulation.cores.site.servers import SimulatedBookie
from tests.simulation.engine.runs import Failed, Outcome
from tests.simulation.engine.world import Stuck, World

from .checks import Checker

LEDGER = 7
CALM_SECONDS = 250.0
"""From here on everything works."""

ARRIVED_SECONDS = 150.0
"""After calm, by when what was sent before it has arrived or been given up."""

ACCEPTED_AGAIN_SECONDS = 10.0
"""How often an operator looks whether all bookies are up."""

ROUND_SECONDS = 60.0
"""How often bookies note what the metadata says, until the last recovery begins."""

RECOVERY_TRIES = 3
LAST_RECOVERY_TRIES = 8
LAST_RECOVERY_SECONDS = 250.0
CLOSED_WITHIN_SECONDS = 600.0
"""After calm one more recoverer comes, and closes the ledger with so many tries within so many virtual seconds."""


@dataclass(frozen=True, slots=True)
class Run(Outcome):
    """What one plan led to. `last_entry` is None where the ledger was not closed."""

    events: int = 0
    confirmed: int = 0
    last_entry: int | None = None


class Cluster:
    """A simulated cluster, wired, with everything in its plan yet to happen."""

    def __init__(self, plan: Plan, *, tracing: bool = True) -> None:
        self.plan = plan
        self.world = world = World(plan.seed, tracing=tracing)
        shape = Shape(*plan.shape)
        refs = [BookieRef(name, f"i{name[1:]}") for name in plan.bookie_names]
        lacking = tuple(Lacking.everything(n) for n in plan.absent)
        ensemble = tuple(refs[: shape.ensemble_size])
        first = LedgerRecord(LEDGER, shape, (Fragment(0, ensemble, lacking=lacking, number=1),))
        self.checker = Checker(first)
        self.network = Network(world, plan.figures, plan.rules)
        self.metadata = SimulatedMetadata(world, self.network, self.checker, first)
        self.bookies = {
            r.bookie_id: SimulatedBookie(world, r, self.checker, plan.figures, self._record) for r in refs
        }
        self.site = Site(
            world,
            self.network,
            self.checker,
            self.metadata,
            self.bookies,
            Crc32cDigester(LEDGER),
            plan.figures,
            set(),
            CALM_SECONDS + ARRIVED_SECONDS if plan.is_survivable else math.inf,
        )
        self.clients: dict[str, Client] = {}
        self._makers: dict[str, Callable[[], Client]] = {}
        self._went_home: set[str] = set()

    # --- running --------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it, until nothing is left to happen; then the checks of the end."""
        self._start_writer()
        for operation in self.plan.operations:
            self.world.at(operation.at, lambda o=operation: self._operate(o))  # type: ignore[misc]
        for fault in self.plan.faults:
            self.world.at(fault.at, lambda f=fault: perform(f, self))  # type: ignore[misc]
        self.world.at(CALM_SECONDS, self._calm)
        self.world.after(ROUND_SECONDS, self._round)
        self.world.run()
        self._check_end()

    def _start_writer(self) -> None:
        created = self.metadata.stands
        assert created is not None
        advanced = any(isinstance(operation, plans.AppendAs) for operation in self.plan.operations)
        self.clients[plans.WRITER] = (AdvancedWriter if advanced else Writer)(self.site, created, self.plan)
        self.clients[plans.WRITER].begin()
        self._makers[plans.WRITER] = lambda: Recoverer(self.site, plans.WRITER, RECOVERY_TRIES)

    def start_client(self, name: str) -> None:
        """A new life of the client. A ledger has one writer: where it comes back it recovers its ledger."""
        maker = self._makers.get(name)
        if maker is not None:
            self.clients[name] = maker()
            self.clients[name].begin()

    def _record(self) -> LedgerRecord | None:
        return None if self.metadata.stands is None else self.metadata.stands.record

    def accept(self) -> None:
        """An operator has started all bookies, and accepts the metadata that went back."""
        if not self.metadata.is_held:
            return
        self._bring_up()

    def _bring_up(self) -> None:
        if all(bookie.up for bookie in self.bookies.values()):
            self.metadata.accept(one for bookie in self.bookies.values() for one in bookie.noted)
        else:
            self.world.after(ACCEPTED_AGAIN_SECONDS, self.accept)

    def _round(self) -> None:
        for bookie in self.bookies.values():
            bookie.deliver(lambda one=bookie: one.keep_notes(self.metadata.found_by_upkeep))  # type: ignore[misc]
        if self.world.now < CALM_SECONDS + LAST_RECOVERY_SECONDS:
            self.world.after(ROUND_SECONDS, self._round)

    def _operate(self, operation: plans.Operation) -> None:
        site = self.site
        match operation:
            case plans.Recover(_, client, tries):
                self._begin(client, lambda: Recoverer(site, client, tries))
            case plans.Tail(_, client, first_entry):
                self._begin(client, lambda: TailReader(site, client, first_entry, 0))
            case plans.Read(_, client, rotation):
                self._begin(client, lambda: PlainReader(site, client, 0, rotation))
            case plans.Delete():
                self._begin(plans.DELETER, lambda: Deleter(site, plans.DELETER))
            case _:
                writer = self.clients[plans.WRITER]
                writer.deliver(lambda: self._write(operation))

    def _begin(self, name: str, maker: Callable[[], Client]) -> None:
        if name not in self._makers:
            self._makers[name] = maker
            self.start_client(name)

    def _write(self, operation: plans.Operation) -> None:
        writer = self.clients[plans.WRITER]
        if not isinstance(writer, Writer):
            return  # it died, and came back to recover
        match operation:
            case plans.Append(_, sizes):
                writer.append(sizes)
            case plans.AppendAs(_, entry_id, size):
                assert isinstance(writer, AdvancedWriter)
                writer.append_as(entry_id, size)
            case plans.TellLac():
                writer.tell_lac()
            case plans.Force():
                writer.force()
            case plans.Close():
                writer.close()

    # --- the end --------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Everything works from here on, and one more client wants the ledger closed."""
        self.world.note("calm")
        self.network.calm()
        self.metadata.calm()
        self.site.unregistered.clear()
        for bookie in self.bookies.values():
            bookie.heal()
            bookie.wake()
            bookie.restart()
        for client in self.clients.values():
            client.wake()
        self.world.after(LAST_RECOVERY_SECONDS, self._recover_at_last)
        self.world.after(CLOSED_WITHIN_SECONDS, self._look_whether_closed)
        self.world.after(2 * CLOSED_WITHIN_SECONDS, self._go_home)
        self.world.after(
            CLOSED_WITHIN_SECONDS, lambda: self._operate(plans.Read(0.0, "final", self.plan.seed))
        )

    def _go_home(self) -> None:
        """Nobody waits for an answer any more; who looks for bookies or for news would do so for ever."""
        for name, client in self.clients.items():
            follows = isinstance(client, TailReader) and not self.plan.is_survivable
            if client.up and not client.is_done and not follows:
                raise Stuck(f"{name} still waits for something")
            self._went_home |= {name} if client.up else set()
            client.up = False

    def _recover_at_last(self) -> None:
        writer = self.clients[plans.WRITER]
        if isinstance(writer, Writer) and self.plan.is_survivable:
            writer.check_whole()
        if self.metadata.went_back:  # bookies may have been told an end since it was accepted
            self._bring_up()
        self._operate(plans.Recover(0.0, "last", LAST_RECOVERY_TRIES))

    def _look_whether_closed(self) -> None:
        stands = self.metadata.stands
        if self.plan.is_survivable and stands is not None and not stands.record.is_closed:
            raise Stuck(f"the ledger was not closed {CLOSED_WITHIN_SECONDS:g} s after calm")

    def _check_end(self) -> None:
        for bookie in self.bookies.values():
            bookie.check_idle()
        stands = self.metadata.stands
        if stands is not None and self.plan.is_survivable:
            for client in self.clients.values():
                # Of an end that no bookie was told, and the store has lost, a recovery may find another one.
                is_bound = not self.metadata.went_back or client.name == "final"
                if (
                    is_bound
                    and isinstance(client, TailReader | PlainReader)
                    and client.name in self._went_home
                ):
                    self._check_read_all(client)

    def _check_read_all(self, reader: TailReader | PlainReader) -> None:
        """A tail reader reaches the close; whoever reads the closed ledger reads all of it."""
        last = self.checker.committed.last_entry
        assert last is not None
        must = isinstance(reader, TailReader) or reader.name == "final" or reader.has_seen_close
        if must and (not reader.has_seen_close or reader.next_entry <= last):
            raise Stuck(f"{reader.name} has read to {reader.next_entry - 1} of the ledger closed at {last}")


def play(plan: Plan, tracing: bool = True) -> Run:
    """One whole run. Raises Failed with the plan and the end of its trace."""
    cluster = Cluster(plan, tracing=tracing)
    try:
        cluster.run()
    except Exception as why:  # whatever a run ends with, it is the plan's failure and is raised as that
        raise Failed(plan, why, cluster.world.trace) from why
    world, stands = cluster.world, cluster.metadata.stands
    last = stands.record.last_entry if stands is not None else None
    confirmed = cluster.checker.confirmed_through + 1
    how = "not closed" if last is None else f"closed at {last}"
    end = f"{world.events} events, {confirmed} confirmed, {how}, no violation"
    return Run(plan, tuple(world.trace), frozenset(world.probes), end, world.events, confirmed, last)
