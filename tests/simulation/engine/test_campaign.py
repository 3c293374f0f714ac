"""Campaigns repeat their seeds, name the first, and fail where a rare path is missed; a failing seed is told whole."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from enum import Enum

import pytest

from tests.simulation.layers import LAYERS, layer_named

from .campaign import Tally, campaign, replay
from .layer import Layer
from .runs import Failed, Outcome
from .shrink import with_fewer
from .world import Violation


class Path(Enum):
    """Rare paths."""

    ONE = "one"
    OTHER = "the other"


@dataclass(frozen=True)
class Numbers:
    """A plan: it fails where seven is among its numbers."""

    numbers: tuple[int, ...]


def play(plan: Numbers, tracing: bool) -> Outcome:
    if 7 in plan.numbers:
        raise Failed(plan, Violation("no seven", "there is one"), ["a line"])
    return Outcome(plan, ("a line",) if tracing else (), frozenset({Path.ONE}))


LAYER = Layer(
    "made-up",
    "Numbers without a seven.",
    lambda seed: Numbers((1, seed, 3)),
    play,
    simpler=(lambda plan: with_fewer(plan, "numbers"),),
    probes=tuple(Path),
    seeds_that_reach_everything=1000,
)


def test_a_campaign_tells_what_failed_its_smallest_plan_and_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert campaign(LAYER, 0, 100, None, 2) == 1
    told = capsys.readouterr().out
    assert "seed 7: Violation('no seven: there is one')\nNumbers(numbers=(1, 7, 3))\n" in told
    assert "the smallest plan that fails so:\nNumbers(numbers=(7,))\n" in told
    assert "repeat it with: make sim LAYER=made-up SEED=7\n" in told
    assert re.search(r"\nseeds=100 violations=1 seeds_per_second=\d+ first_seed=0\n\Z", told)


def test_one_seed_is_told_with_its_plan_and_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(LAYER, 5) == 0
    assert capsys.readouterr().out.startswith("Numbers(numbers=(1, 5, 3))\na line\nseed 5: no violation\n")
    assert replay(LAYER, 7) == 1


def test_a_long_campaign_that_misses_a_rare_path_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign(LAYER, 1000, 999, None, 1) == 0
    assert campaign(LAYER, 1000, 1000, None, 1) == 1
    assert "never reached: the other\n" in capsys.readouterr().out
    assert Tally(1000, probes=Counter(Path)).unreached(LAYER) == []


def test_a_campaign_of_seconds_ends_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign(LAYER, 10, None, 0.2, 2) in (0, 1)
    assert "== made-up: 0.2 seconds from seed 10 on 2 processes\n" in capsys.readouterr().out


def test_what_does_not_fail_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        LAYER.shrink(Numbers((1, 2)))


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_runs_by_its_name_from_the_first_seed_told(name: str) -> None:
    command = [sys.executable, "-m", "tests.simulation", name, "--seeds", "4", "--first-seed", "4711"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.search(r"\nseeds=4 violations=0 seeds_per_second=\d+ first_seed=4711\n\Z", done.stdout), done
    assert layer_named(name).name == name
