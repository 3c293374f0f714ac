"""The first layer as the others are: one `Layer` that runs a seed."""

from __future__ import annotations

from .cluster import Failed, run_seed
from .probes import Probe
from tests.simulation.engine.layer import Broken, Layer, Outcome


def run(seed: int, tracing: bool) -> Outcome:
    """One seed. Raises Broken."""
    try:
        done = run_seed(seed, tracing=tracing)
    except Failed as failed:
        raise Broken(repr(failed.__cause__), failed.trace) from failed
    return Outcome(tuple(done.trace), frozenset(done.probes))


LAYER = Layer("cores", "Random schedules of faults against the machines.", run, 5000, tuple(Probe), 20_000)
