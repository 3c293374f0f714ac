"""The layer `shells`. Its plan is the seed: what happens is drawn while it runs."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer

from .planted import PLANTS
from .runs import Run, run_seed


def play(seed: int, tracing: bool) -> Run:
    """Raises Failed."""
    return run_seed(seed)


LAYER = Layer(
    "shells", "Random schedules of faults against the real shells, in virtual time.", int, play, plants=PLANTS
)
