"""One plan, one run of the second layer.

    run_wet_seed(7)         draws the plan of seed 7 and runs it
    run_wet_plan(plan)      raises Failed with the plan and the end of its trace where a promise was broken

Segments, groups and pages are made small, by the seed, so that a short run rolls, seals and replays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar
from unittest.mock import patch

from bookie.index import index
from bookie.log import appender, writer
from bookie.storage import frames, reading
from metadata.records.ledger_record import BookieRef
from tests.simulation.cores import cluster
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.cluster import Run, run_plan
from tests.simulation.cores.plans.draw import draw
from tests.simulation.cores.plans.plan import Figures, Plan
from tests.simulation.engine.chance import Stream, key_of
from tests.simulation.engine.world import Violation, World

from .atlas import Atlas
from .bookie import WetBookie
from .probes import WetProbe
from .rack import Rack
from .shelf import SHELF
from .wire import Messages


class WetChecker(Checker):
    """What is confirmed or closed must be found in the durable bytes of the disks."""

    rack: Rack

    def _must_be_durable(self, entry_id: int, rule: str, why: str) -> None:
        super()._must_be_durable(entry_id, rule, why)
        ensemble = self.committed.fragment_of(entry_id).ensemble
        named = [ensemble[position] for position in self._striping.write_set(entry_id)]
        holders = [bookie for bookie in named if self._is_on_platter(bookie, entry_id)]
        if len(holders) < self.committed.shape.ack_quorum:
            raise Violation(
                rule, f"entry {entry_id} is {why}; of {named} only {holders} have it on their platters"
            )

    def _is_on_platter(self, ref: BookieRef, entry_id: int) -> bool:
        bookie = self.rack.bookies[ref.bookie_id]
        if bookie.ref != ref:  # wiped since
            return entry_id in self._had.get(ref, ())
        return bookie.has_durably(entry_id, self.written[entry_id])


@dataclass(frozen=True, slots=True)
class WetRun:
    """What one plan led to. `operations`: changing operations of each bookie's disk since its first start."""

    run: Run
    probes: frozenset[WetProbe]
    operations: Mapping[str, int]
    messages: Messages

    @property
    def plan(self) -> Plan:
        return self.run.plan

    @property
    def trace(self) -> tuple[str, ...]:
        return self.run.trace

    @property
    def trace_hash(self) -> str:
        return self.run.trace_hash

    @property
    def end(self) -> str:
        return self.run.end


def run_wet_plan(plan: Plan, *, tracing: bool = True, power_off: Mapping[str, int] | None = None) -> WetRun:
    """One whole run. Raises Failed with the plan and the end of its trace.

    `power_off`: before which operation of a bookie's disk its power goes; then bookies draw no faults of their own.
    """
    rack = Rack(plan, Atlas(plan), SHELF, power_off or {}, draws_faults=power_off is None)

    def bookie(world: World, ref: BookieRef, checker: Checker, figures: Figures) -> WetBookie:
        assert isinstance(checker, WetChecker)
        checker.rack = rack
        return WetBookie(world, ref, checker, figures, rack)

    with _small_sizes(plan.seed), _listening(rack), patch.object(cluster, "Checker", WetChecker):
        try:
            run = run_plan(plan, bookie, tracing=tracing)
        finally:
            rack.close()
    operations = {name: found.operations for name, found in rack.bookies.items()}
    return WetRun(run, frozenset(rack.probes), operations, rack.messages)


def run_wet_seed(seed: int, *, tracing: bool = True) -> WetRun:
    """The plan of this seed, run."""
    return run_wet_plan(draw(seed), tracing=tracing)


@contextmanager
def _small_sizes(seed: int) -> Iterator[None]:
    """The product's own bounds, small enough to be met in every run."""
    chance = Stream(key_of(seed, "wet sizes"))
    group = chance.choice((400, 1000, 4000))
    small = chance.choice((0, group // 2, group))
    sizes = (
        (appender, "SEGMENT_BYTES_MAX", chance.choice((400, 800, 1600, 6000))),
        (appender, "SMALL_GROUP_BYTES", small),
        (appender, "ZERO_STEP_BYTES", max(small, chance.choice((128, 256, 1024)))),
        (appender, "RESERVE_STEP_BYTES", chance.choice((128, 1024))),
        (writer, "GROUP_BYTES_MAX", group),
        (writer, "UNSYNCED_BYTES_MAX", chance.choice((200, 600, 4000))),
        (index, "PLACES_PER_PAGE_MAX", chance.choice((24, 4096))),
        (reading, "PAGE_BYTES_MAX", chance.choice((200, 800, 4096))),
        (frames, "OPEN_SEGMENTS_MAX", chance.choice((1, 2, 64))),
    )
    with ExitStack() as stack:
        for module, name, size in sizes:
            stack.enter_context(patch.object(module, name, size))
        yield


class _Listener(logging.Handler):
    """The product reports damage and torn tails; here they are what is meant to happen."""

    MEANING: ClassVar = {
        "cut the torn tail": WetProbe.TAIL_CUT,
        "removed %s": WetProbe.UNBEGUN_REMOVED,
        "damaged record": WetProbe.RECORD_DAMAGED,
        "cannot read %s": WetProbe.READ_FAILED,
    }

    def __init__(self, rack: Rack) -> None:
        super().__init__()
        self._rack = rack

    def emit(self, record: logging.LogRecord) -> None:
        for beginning, probe in self.MEANING.items():
            if record.msg.startswith(beginning):
                self._rack.reached(probe)


@contextmanager
def _listening(rack: Rack) -> Iterator[None]:
    listener = _Listener(rack)
    loggers = [logging.getLogger(name) for name in ("bookie.storage.reading", "bookie.log.replay")]
    for logger in loggers:
        logger.addHandler(listener)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(listener)
            logger.propagate = True
