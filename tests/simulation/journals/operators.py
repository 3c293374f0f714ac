"""Who brings acceptors up to date, and replaces one that lost everything, as docs/journals.md says it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qjm_compat.acceptor.programs.acceptor_effects import CopySegment, DropLedger, ReadState
from qjm_compat.acceptor.programs.machine import program
from qjm_compat.acceptor.programs.sync_programs import (
    SegmentsHeld,
    SyncOutcome,
    make_room_for_another,
    segments_held,
    take_finalized,
)
from qjm_compat.errors import BadJournalState, JournalError, JournalNotEmpty, RuleViolated
from qjm_compat.requests import RemoteEditLog
from qjm_compat.sync.joining import epochs_above, format_to_join
from qjm_compat.sync.plan import SyncPlan, SyncStep, plan
from tests.simulation.engine.world import Violation

from .client import Sleep
from .plan import Replace, Sync
from .probes import SyncProbe
from .server import JOURNAL, Server
from .site import Host
from .users import NAMESPACE

if TYPE_CHECKING:
    from .cluster import Cluster

REST_SECONDS = 8.0
STEPS_OF_A_COPY = 6
"""A copy takes its time, and much may happen meanwhile."""

Script = Generator[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Looking:
    """What an operator's process asks an acceptor's records."""


@dataclass(frozen=True, slots=True)
class Taking:
    """What it has copied."""

    step: SyncStep
    source: str


@dataclass(frozen=True, slots=True)
class Run:
    """→ (answer, error) of a program in the operator's own process."""

    server: Server
    request: Any
    steps: Any


class Operator:
    """One process that runs one command after the other. `is_at_rest`: no acceptor is lost and not replaced."""

    def __init__(self, cluster: Cluster, host: Host, at: float) -> None:
        self.cluster = cluster
        self.site = cluster.site
        self.host = host
        self.is_at_rest = True
        self._at = at
        self._script: Script | None = None
        self._has_ended = False

    @property
    def is_done(self) -> bool:
        return self._has_ended or not self.host.is_up

    def start(self, script: Script) -> None:
        """Runs the script when its time has come. It ends with its process."""
        self._script = script
        self.host.died.append(self._died)
        self.site.within(self.host, self._at, self._resume, None)

    def syncs(self, wants: Sync, *, until_whole: bool = False) -> Script:
        """So many rounds; fewer where nothing is left to do and that is all that is wanted."""
        for _ in range(wants.rounds):
            if (yield from self._round()) and until_whole:
                return
            yield Sleep(wants.every)
        if until_whole:
            raise Violation("liveness", "the acceptors are not up to date with each other in the end")

    def replaces(self, wanted: tuple[Replace, ...]) -> Script:
        """Loses one acceptor after the other, each when the one before is whole again, and adds a new one."""
        for wants in wanted:
            yield Sleep(max(0.0, wants.at - self.site.now))
            while not (yield from self._round()):
                if self.site.is_calm:
                    return
                yield Sleep(REST_SECONDS)
            if self.site.is_calm:
                return
            self.is_at_rest = False
            self.cluster.lose(wants.acceptor)
            self.site.note("acceptor a%s is lost", wants.acceptor)
            yield from self._joined(wants.acceptor)
            self.site.reached(SyncProbe.JOINED)
            self.is_at_rest = True

    # --- one command ------------------------------------------------------------------------------------

    def _round(self) -> Generator[Any, Any, bool]:
        """`journal sync`; whether everything is everywhere, as far as this round saw."""
        servers = self._servers()
        held = yield from self._held(servers)
        todo = plan(held, held)
        if todo.violations and not self.site.checks.is_resting:
            raise Violation("J4", todo.violations[0])
        for step in todo.steps:
            yield from self._brought(step, servers)
        if todo.waits:
            self.site.reached(SyncProbe.NOT_VOUCHED)
        is_known = len(held) == len(servers) and not any(one.behind for one in held.values())
        return is_known and todo == SyncPlan()

    def _joined(self, number: int) -> Generator[Any, Any, None]:
        """`journal sync` among the others and `journal format`, until the new one takes part."""
        name = f"a{number}"
        while True:
            yield from self._round()
            servers = self._servers()
            held = yield from self._held({n: one for n, one in servers.items() if n != name})
            if len(held) == len(servers) - 1:
                held = yield from self._with_room(servers, held)
            if len(held) == len(servers) - 1:
                try:
                    request = format_to_join(JOURNAL, held, [name], NAMESPACE)
                except BadJournalState as why:
                    self.site.note("not yet: %s", why)
                    self.site.reached(SyncProbe.MAY_NOT_JOIN)
                else:
                    server = servers[name]
                    _, error = yield Run(server, request, program(server.memory, request))
                    if error is None or isinstance(error, JournalNotEmpty):
                        if request.joined_behind:
                            self.site.reached(SyncProbe.JOINED_BEHIND)
                        return
            yield Sleep(REST_SECONDS)

    def _with_room(
        self, servers: dict[str, Server], held: dict[str, SegmentsHeld]
    ) -> Generator[Any, Any, dict[str, SegmentsHeld]]:
        """What those tell that did it."""
        above, found = epochs_above(held), {}
        for name in held:
            steps = make_room_for_another(servers[name].memory, above)
            answer, error = yield Run(servers[name], Looking(), steps)
            if error is None:
                found[name] = answer
        return found

    def _servers(self) -> dict[str, Server]:
        """The acceptors as one process has them: each command is a process of its own."""
        return {disk.name: Server(self.site, self.host, disk) for disk in self.cluster.disks}

    def _held(self, servers: dict[str, Server]) -> Generator[Any, Any, dict[str, SegmentsHeld]]:
        held = {}
        for name, server in servers.items():
            answer, error = yield Run(server, Looking(), segments_held(server.memory))
            if error is None:
                held[name] = answer
        return held

    def _brought(self, step: SyncStep, servers: dict[str, Server]) -> Generator[Any, Any, None]:
        server = servers[step.target]
        for source in step.sources:
            request = Taking(step, source)
            _, error = yield Run(server, request, self._taking(server, request))
            if isinstance(error, RuleViolated):
                raise Violation("contract", f"{step}: {error}")
            if error is None:
                return

    def _taking(self, server: Server, request: Taking) -> Generator[Any, Any, SyncOutcome]:
        """As `Journal.take_finalized`."""
        me, log = server.memory, request.step.log
        taken: SyncOutcome = yield from take_finalized(me, log, None)
        if taken is SyncOutcome.LACKING:
            was_there = server.disk.segment(log.start_txid) is not None
            copied = yield from CopySegment(request.source, log.start_txid, log.end_txid, log.writer_epoch)
            for _ in range(STEPS_OF_A_COPY):
                yield ReadState()
            if self._is_purged(log):
                yield from DropLedger(copied.ledger_id)
                self.site.reached(SyncProbe.PURGED)
                return SyncOutcome.PURGED
            taken = yield from take_finalized(me, log, copied)
            self._note(taken, was_there=was_there)
        elif taken is SyncOutcome.FINALIZED:
            self.site.reached(SyncProbe.FINALIZED)
        return taken

    def _is_purged(self, log: RemoteEditLog) -> bool:
        states = [disk.state.state for disk in self.cluster.disks if disk.state is not None]
        return log.end_txid < max((state.purged_below for state in states), default=0)

    def _note(self, taken: SyncOutcome, *, was_there: bool) -> None:
        if taken is SyncOutcome.COPIED:
            self.site.reached(SyncProbe.COPIED)
            if was_there:
                self.site.reached(SyncProbe.STALE_REPLACED)
        elif taken is SyncOutcome.THERE:
            self.site.reached(SyncProbe.THERE)

    # --- its process --------------------------------------------------------------------------------------

    def _resume(self, outcome: Any) -> None:
        assert self._script is not None
        try:
            effect = self._script.send(outcome)
        except StopIteration:
            self._has_ended = True
            return
        match effect:
            case Sleep(seconds):
                self.site.within(self.host, seconds, self._resume, None)
            case Run(server, request, steps):
                server.run(request, steps, self._answered)

    def _answered(self, answer: Any, error: JournalError | None) -> None:
        self.site.within(self.host, 0.0, self._resume, (answer, error))

    def _died(self) -> None:
        if not self._has_ended:
            self.site.reached(SyncProbe.SYNC_CRASHED)


def operators_of(cluster: Cluster) -> list[Operator]:
    """Those of the plan, each waiting for its time."""
    found = []
    for n, wants in enumerate(cluster.plan.syncs):
        found.append(Operator(cluster, cluster.site.host(f"s{n}"), wants.at))
        found[-1].start(found[-1].syncs(wants))
    replaced = cluster.plan.replaced
    if replaced:
        found.append(Operator(cluster, cluster.site.host("o0"), replaced[0].at))
        found[-1].start(found[-1].replaces(replaced))
    return found
