"""`python -m tests.hunt WHAT [--seconds N]`: searches for bugs, and writes down what it finds.

It judges no change: CI does not run it. What a hunt prints goes to `build/hunt/NAME.log`. A finding is a file
`build/hunt/NAME-TIME.txt`: the command that was run, and all that it said, which ends with the smallest plan or with
the command that repeats it. Keep a finding as a plan (`found.py`) or a directed test, then mend the bug.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hunt.etcd import VERSIONS
from tests.simulation.layers import LAYERS

RESULTS = Path("build/hunt")
SECONDS_DEFAULT = 600

JOURNALS = (
    "tests/integration/test_journals_soak.py",
    "tests/integration/test_journals_killed.py",
    "tests/scenarios/test_journal_under_faults.py",
)
JOURNALS_SOAKED = "soak_journals or killed or stood_still"

Command = Callable[[int], Sequence[str]]
"""The arguments of the interpreter for a hunt of so many seconds."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """What is looked for, how, and what its processes find in their environment."""

    what: str
    command: Command
    environment: tuple[tuple[str, str], ...] = ()


def _tests(*options: str) -> Command:
    return lambda seconds: ("-m", "pytest", "--cache-clear", "-n", "4", "--dist", "loadfile", *options)


def _layer(name: str) -> Command:
    return lambda seconds: ("-m", "tests.simulation", name, "--seconds", str(seconds))


def _etcd(version: str) -> Command:
    return lambda seconds: ("-m", "tests.hunt.etcd", version, "--seconds", str(seconds))


HUNTS = {
    **{name: Hunt(f"fresh seeds of the simulator's layer {name}", _layer(name)) for name in LAYERS},
    "rollback": Hunt(
        "metadata that is set back to an older copy under living bookies and clients, 500 seeds",
        _tests("tests/simulation/cluster/test_metadata_rollback.py"),
        (("ROLLBACK_SEEDS", "500"),),
    ),
    "plants": Hunt(
        "whether seeds from 0 on find each planted bug, and which one does first",
        _tests("-m", "long", "-rP", "-k", "test_a_planted_bug_is_found", "tests/simulation"),
    ),
    "long": Hunt(
        "tests of real processes that take long, or have a quicker brother in `make test`",
        _tests("-m", "long", "-k", "not test_a_planted_bug_is_found"),
    ),
    "drawn": Hunt(
        "new examples for all property tests",
        _tests(
            "-m",
            "not long",
            "--ignore=tests/integration",
            "--ignore=tests/spark",
            "--ignore=tests/simulation",
        ),
        (("HYPOTHESIS_PROFILE", "drawn"),),
    ),
    "chaos": Hunt(
        "real bookies and etcd, killed, hung, slowed and wiped under clients",
        lambda seconds: ("-m", "tests.chaos.run", "--seconds", str(seconds)),
    ),
    **{
        f"etcd-{version}": Hunt(f"what depends on etcd, over {version}", _etcd(version))
        for version in VERSIONS
    },
    "siege": Hunt(
        "what strangers at its bookies leave of a writer",
        lambda seconds: ("-m", "tests.siege.run", "--seconds", str(seconds)),
    ),
    "journals-soak": Hunt(
        "writers that take journals from each other, and every fault on real bookies",
        lambda seconds: ("-m", "pytest", "-s", "-m", "", "--timeout=7200", "-k", JOURNALS_SOAKED, *JOURNALS),
    ),
    "fuzz": Hunt(
        "bytes of all kinds for every parser, so many seconds each",
        lambda seconds: ("-m", "tests.fuzz", "--seconds", str(seconds)),
    ),
    "speed": Hunt(
        "workloads that are slower than at the commit AGAINST (else the last one), in pairs",
        lambda seconds: ("-m", "tests.hunt.speed", "--seconds", str(seconds)),
    ),
    "mutants": Hunt(
        "small changes of the protocol's machines that no test notices",
        lambda seconds: ("-m", "tests.mutants", "ledgers/protocol"),
    ),
}


def hunt(name: str, seconds: int, results: Path) -> Path | None:
    """Runs one; returns the file of what it found, if anything."""
    one = HUNTS[name]
    command = [sys.executable, *one.command(seconds)]
    environment = {**os.environ, "BOOKLEDGER_SOAK_SECONDS": str(seconds), **dict(one.environment)}
    results.mkdir(parents=True, exist_ok=True)
    log = results / f"{name}.log"
    with log.open("wb") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, check=False)
    if ended.returncode == 0:
        return None
    found = results / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.txt"
    settings = " ".join(f"{key}={value}" for key, value in one.environment)
    found.write_bytes(f"{settings} {' '.join(command)}\n".lstrip().encode() + log.read_bytes())
    return found


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description="Searches for bugs.")
    parser.add_argument("what", nargs="*", choices=[[], *HUNTS], help="hunts by name, one after the other")
    parser.add_argument("--seconds", type=int, default=SECONDS_DEFAULT, help="of each, where it can be told")
    arguments = parser.parse_args(given)
    if not arguments.what:
        print("name what to hunt for, as in `make hunt WHAT=cluster SECONDS=1800`:")
        print("\n".join(f"  {name:14} {one.what}" for name, one in HUNTS.items()))
        return 2
    findings = 0
    for name in arguments.what:
        print(f"== hunt: {name}: {HUNTS[name].what}", flush=True)
        found = hunt(name, arguments.seconds, RESULTS)
        findings += found is not None
        told = f"nothing found; see {RESULTS / name}.log" if found is None else f"FOUND: {found}"
        print(f"   {told}", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
