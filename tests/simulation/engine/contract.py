"""What every layer must do. The tests of a layer derive from these classes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, ClassVar

import pytest

from .found import Found
from .layer import Layer
from .planted import Plant
from .runs import Run, hash_of
from .shrink import items_of

PLANS_PRINTED = 50


FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
SEEDS = os.environ.get("SIM_SEEDS")
SHRINKING_RUNS_MAX = 300


@cache
def runs_of(layer: Layer[Any], seeds: int, traced: bool) -> list[Run]:
    return [layer.run(seed, traced) for seed in range(FIRST_SEED, FIRST_SEED + seeds)]


class OfLayer:
    """Tests of one layer. `shrinks`: plans that find these bugs come down to so many items. `found`: plans that found
    bugs hold, and would find them again.
    """

    layer: ClassVar[Layer[Any]]
    shrinks: ClassVar[Mapping[Plant, int]] = {}
    found: ClassVar[Sequence[Found]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for name, some in (
            ("plant", [one for one in self.layer.plants if one.within]),
            ("shrunk", list(self.shrinks)),
            ("plan_kept", self.found),
        ):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, some, ids=_named)


class PlantContract(OfLayer):
    """The bugs that are planted in the product are found."""

    def test_a_planted_bug_is_found_by_the_seed_that_is_known(
        self, plant: Plant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the draws have changed it is searched for, which takes long; `make hunt WHAT=plants` tells seeds."""
        plant(monkeypatch)
        assert plant.known is not None
        if not self.layer.finds(plant.known):
            found = next(self.layer.failing_seeds(plant), None)
            assert found is not None, f"neither seed {plant.known} nor any below {plant.within} finds it"
            print(f"{self.layer.name} {plant.name}: seed {found} finds it now, and {plant.known} no more")

    @pytest.mark.long
    def test_a_planted_bug_is_found(self, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(monkeypatch)
        found = next(self.layer.failing_seeds(plant), None)
        assert found is not None, f"no seed below {plant.within} found it"
        print(f"{self.layer.name} {plant.name}: seed {found}")


class ScheduleContract(OfLayer):
    """`seeds`: so many hold, and take a share `reached` of the rare paths; where `rarest` are named, all others.
    `same_seeds`: so many are run again, in a process of its own.
    """

    seeds: ClassVar[int]
    reached: ClassVar[float] = 0.8
    rarest: ClassVar[Collection[Enum]] = ()
    traced: ClassVar[bool] = False
    same_seeds: ClassVar[int] = 8

    @pytest.fixture
    def runs(self) -> list[Run]:
        """`SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed."""
        return runs_of(self.layer, int(SEEDS or self.seeds), self.traced)

    def test_no_promise_is_broken_under_random_faults(self, runs: list[Run]) -> None:
        """A failing seed is named with its plan and its trace."""
        assert [run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + len(runs)))

    @pytest.mark.skipif(SEEDS is not None, reason="a few seeds do not reach everything")
    def test_the_random_schedules_take_the_rare_paths(self, runs: list[Run]) -> None:
        """A harness that tests nothing finds nothing; the rarest paths are asked for by campaigns only."""
        missed = set(self.layer.probes).difference(*(run.probes for run in runs))
        if self.rarest:
            assert missed <= set(self.rarest)
        assert len(missed) <= (1 - self.reached) * len(self.layer.probes), missed

    def test_the_same_seed_gives_the_same_run_whatever_the_hashing_of_the_process(self) -> None:
        hashes = [hash_of(self.layer.run(seed, tracing=True).trace) for seed in range(self.same_seeds)]
        program = (
            "from tests.simulation.layers import layer_named\n"
            "from tests.simulation.engine.runs import hash_of\n"
            f"layer = layer_named({self.layer.name!r})\n"
            f"for seed in range({self.same_seeds}): print(hash_of(layer.run(seed, tracing=True).trace))"
        )
        environment = {**os.environ, "PYTHONHASHSEED": "4711"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == hashes

    def test_a_plan_prints_as_the_python_that_makes_it_again(self) -> None:
        for seed in range(PLANS_PRINTED):
            plan = self.layer.draw(seed)
            names = vars(sys.modules[type(plan).__module__])
            assert eval(repr(plan), dict(names)) == plan == self.layer.draw(seed)

    def test_a_failing_plan_is_made_small(self, shrunk: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            shrunk(patch)
            plan = self.layer.draw(next(self.layer.failing_seeds(shrunk)))
            small = self.layer.shrink(plan, runs_max=SHRINKING_RUNS_MAX)
            assert self.layer.rule_broken_by(small) == self.layer.rule_broken_by(plan)
        assert items_of(small) <= self.shrinks[shrunk], repr(small)
        assert self.layer.rule_broken_by(small) is None, "without the bug it holds"

    def test_a_plan_that_found_a_bug_holds(self, plan_kept: Found) -> None:
        assert self.layer.rule_broken_by(plan_kept.plan) is None

    def test_and_would_find_it_again(self, plan_kept: Found, monkeypatch: pytest.MonkeyPatch) -> None:
        if plan_kept.bug is not None:
            plan_kept.bug(monkeypatch)
            assert self.layer.rule_broken_by(plan_kept.plan) == plan_kept.rule


class LayerContract(ScheduleContract, PlantContract):
    """All of it, where one process of the tests has time for it."""


def _named(one: Plant | Found) -> str:
    return one.name if isinstance(one, Plant) else one.what.split(":")[0]
