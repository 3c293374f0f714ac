"""The layer of the machines: what every layer must do, and rules that cover each other."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from tests.simulation.engine.contract import LayerContract, runs_of
from tests.simulation.engine.planted import Plant
from tests.simulation.engine.shrink import items_of, shrunk

from .cluster import Run, play
from .found import FOUND
from .layer import LAYER
from .plans.draw import SHAPES, draw
from .plans.plan import Append, Crash, Plan, Tail
from .planted import in_recovery, in_writer
from .planted.table import CANARY, SAFE_ALONE

SEEDS = 250
SAFE_SEEDS = 100
SHRUNK_ITEMS_MAX = 8


class TestCores(LayerContract):
    layer = LAYER
    found = FOUND
    seeds = SEEDS
    traced = True
    same_seeds = 60
    shrinks = dict.fromkeys(
        (
            in_writer.does_not_send_pending_entries_again,
            in_writer.takes_an_unknown_outcome_for_success,
            in_recovery.reads_without_fencing,
            CANARY,
        ),
        SHRUNK_ITEMS_MAX,
    )


def test_the_random_schedules_do_what_they_are_meant_to_test() -> None:
    runs = [run for run in runs_of(LAYER, SEEDS, True) if isinstance(run, Run)]
    assert {run.plan.shape for run in runs} == set(SHAPES)
    assert sum(run.confirmed > 0 for run in runs) > SEEDS // 2
    kept = [run for run in runs if run.last_entry is not None and run.last_entry >= run.confirmed]
    assert len(kept) > SEEDS // 10, "entries that were never confirmed are recovered"
    assert sum(run.events for run in runs) / SEEDS < 750, "more seeds beat longer seeds"
    for run in runs[:30]:
        assert play(run.plan, tracing=False).events == run.events, "looking costs nothing but time"


def test_what_is_taken_out_of_a_plan_leaves_the_rest_as_it_was() -> None:
    """Chance is keyed: without the tail reader, the writer's story is the same, line by line."""
    plan = Plan(7, (3, 3, 2), 4, operations=(Append(1.0, (2, 3)), Tail(2.0), Append(9.0, (1,))))
    alone = replace(plan, operations=tuple(o for o in plan.operations if not isinstance(o, Tail)))
    assert _lines_of("writer", play(plan)) == _lines_of("writer", play(alone))


def _lines_of(name: str, run: Run) -> list[str]:
    return [line for line in run.trace if f" {name}" in line]


def test_a_plan_shrinks_to_what_its_failure_needs() -> None:
    """Whatever else happens, only the crash of b1 and one append matter to this failure."""

    def fails(plan: Plan) -> str | None:
        crashed = any(isinstance(f, Crash) and f.node == "b1" for f in plan.faults)
        appended = any(isinstance(o, Append) and len(o.sizes) > 1 for o in plan.operations)
        return "made up" if crashed and appended else None

    plan = next(plan for plan in map(draw, range(10_000)) if fails(plan) and items_of(plan) > 10)
    small = shrunk(plan, fails, LAYER.simpler)
    assert [type(item) for item in (*small.operations, *small.faults)] == [Append, Crash]
    assert small.rules == ()
    assert small.operations[0].at % 1 == 0


def test_the_canary_is_found_by_any_twenty_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    CANARY(monkeypatch)
    first = secrets.randbelow(2**40)
    assert any(map(LAYER.finds, range(first, first + CANARY.within))), f"not from seed {first} on"


@pytest.mark.parametrize("plant", SAFE_ALONE, ids=lambda plant: plant.name)
def test_a_rule_that_another_covers_is_not_missed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """F22. Were it found, it would belong to the bugs above."""
    plant(monkeypatch)
    assert not any(map(LAYER.finds, range(SAFE_SEEDS)))
