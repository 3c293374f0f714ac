"""What every layer must do. The tests of a layer derive from this class."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from .found import Found
from .layer import Layer
from .planted import Plant
from .runs import hash_of

PLANS_PRINTED = 50


class LayerContract:
    """`same_seeds`: so many seeds are run again, in a process of its own."""

    layer: ClassVar[Layer[Any]]
    same_seeds: ClassVar[int] = 20

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "plant" in metafunc.fixturenames:
            plants = [pytest.param(plant, id=plant.name) for plant in self.layer.plants if plant.within]
            metafunc.parametrize("plant", plants)

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


class FoundPlans:
    """Plans that found bugs hold, and would find them again."""

    layer: ClassVar[Layer[Any]]
    found: ClassVar[Sequence[Found]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "found" in metafunc.fixturenames:
            metafunc.parametrize("found", self.found, ids=lambda one: one.what.split(":")[0])

    def test_a_plan_that_found_a_bug_holds(self, found: Found) -> None:
        assert self.layer.rule_broken_by(found.plan) is None

    def test_and_would_find_it_again(self, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
        if found.bug is not None:
            found.bug(monkeypatch)
            assert self.layer.rule_broken_by(found.plan) == found.rule
