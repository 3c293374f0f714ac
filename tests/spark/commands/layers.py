"""Layers of the simulator for tests: seeds that end in every way, and a rare path that none takes."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.runs import Failed, Outcome
from tests.simulation.engine.world import Violation

BROKEN = f"{__name__}:BROKEN_LAYER"
BAD = f"{__name__}:BAD_LAYER"
RARE = f"{__name__}:RARE_LAYER"


class Path(Enum):
    """Rare paths."""

    TAKEN = "taken"
    NEVER = "never taken"


def _broken(seed: int, tracing: bool) -> Outcome:
    if seed % 10 == 0:
        raise Failed(seed, Violation("W3", "it does not hold"), ())
    return Outcome(seed)


def _bad(seed: int, tracing: bool) -> Outcome:
    match seed % 10:
        case 1:
            os._exit(3)
        case 2:
            os.closerange(3, 1000)
            time.sleep(3600)
        case 3:
            os.kill(os.getpid(), signal.SIGKILL)
        case 5:
            time.sleep(3600)
        case 7:
            raise SystemExit("enough")
        case 9:
            raise RuntimeError("half of a pair \ud800")
    return Outcome(seed, (), frozenset({Path.TAKEN}))


def _rare(seed: int, tracing: bool) -> Outcome:
    return Outcome(seed, (), frozenset({Path.TAKEN}))


BROKEN_LAYER = Layer("broken", "Every tenth seed breaks a promise.", int, _broken)
BAD_LAYER = Layer("bad", "Every other seed ends badly.", int, _bad, probes=tuple(Path))
RARE_LAYER = Layer(
    "rare", "Never takes one path.", int, _rare, probes=tuple(Path), seeds_that_reach_everything=20
)
