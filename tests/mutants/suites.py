"""Which tests should notice a change of which folder, the quick ones first, and which layers of the simulator."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

SEEDS = {"cores": 400, "upkeep": 30, "journals": 300, "cluster": 12}
"""What takes a few seconds."""


@dataclass(frozen=True, slots=True)
class Suite:
    """What begins with `path` is tested by these."""

    path: str
    tests: tuple[str, ...]
    layers: tuple[str, ...] = ()

    @property
    def commands(self) -> Sequence[list[str]]:
        """One after the other, until one of them fails."""
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=no",
        ]
        simulations = [
            [sys.executable, "-m", "tests.simulation", layer, f"--seeds={SEEDS[layer]}", "--first-seed=0"]
            for layer in self.layers
        ]
        return [[*pytest, *self.tests], *([*one, "--processes=1"] for one in simulations)]


TABLE = (
    Suite("ledgers/protocol", ("tests/ledgers/protocol",), ("cores",)),
    Suite(
        "ledgers/writing",
        (
            "tests/ledgers/writing",
            "tests/integration/test_writing.py",
            "tests/integration/test_advanced_writing.py",
        ),
        ("cluster",),
    ),
    Suite("ledgers/reading", ("tests/ledgers/reading", "tests/integration/test_size_steps.py"), ("cluster",)),
    Suite(
        "ledgers/recovering",
        ("tests/ledgers/recovering", "tests/integration/test_recovering.py"),
        ("cluster",),
    ),
    Suite("ledgers", ("tests/ledgers", "tests/integration/test_writing.py"), ("cluster",)),
    Suite("bookie/storage", ("tests/bookie/storage",), ("upkeep",)),
    Suite("bookie/index", ("tests/bookie/index",), ("upkeep",)),
    Suite("bookie/log", ("tests/bookie/log",), ("upkeep",)),
    Suite("bookie/wire", ("tests/bookie/wire",), ("cluster",)),
    Suite("bookie/upkeep", ("tests/bookie/upkeep",), ("upkeep",)),
    Suite("bookie", ("tests/bookie",)),
    Suite(
        "metadata/leases",
        (
            "tests/metadata/test_held_key.py",
            "tests/metadata/test_lease_holders.py",
            "tests/metadata/test_elections.py",
            "tests/ledgers/elections",
            "tests/scenarios/test_lease_outages.py",
            "tests/bookie/serving/test_daemon.py",
        ),
    ),
    Suite("metadata", ("tests/metadata",)),
    Suite("qjm_compat/acceptor", ("tests/qjm_compat/acceptor",), ("journals",)),
    Suite("qjm_compat/manager", ("tests/qjm_compat/manager",), ("journals",)),
    Suite("qjm_compat/sync", ("tests/qjm_compat/sync",), ("journals",)),
    Suite("qjm_compat", ("tests/qjm_compat",)),
    Suite("spark/planning", ("tests/spark/planning",)),
)


def suite_of(path: str) -> Suite | None:
    """The first that fits."""
    return next((one for one in TABLE if f"{path}/".startswith(f"{one.path}/")), None)
