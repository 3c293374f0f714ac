"""`python -m tests.fuzz [--seconds N] [--runs N] [TARGET ...]`: each target in a process of its own, under atheris.

The corpus is read and never written: what is found goes to a directory that is kept where something was wrong. With
`--write-corpus` the seeds are written to the corpus instead. A line for each target says how often it ran.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .target import CORPUS, Target
from .targets import TARGETS

INPUT_BYTES_MAX = 4096
INPUT_SECONDS_MAX = 5
MEMORY_MIB_MAX = 2048


def fuzz(target: Target, seconds: int, runs: int) -> str:
    """How often it ran. Raises RuntimeError with what it printed where it failed."""
    with tempfile.TemporaryDirectory() as found:
        options = [
            f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={INPUT_SECONDS_MAX}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            f"-artifact_prefix={Path.cwd()}/build/fuzz-{target.name}-",
        ]
        options += [f"-max_total_time={seconds}"] if seconds else []
        options += [f"-runs={runs}"] if runs else []
        command = [sys.executable, "-m", "tests.fuzz.one", target.name, *options]
        Path("build").mkdir(exist_ok=True)
        corpus = [str(CORPUS / target.name)] if (CORPUS / target.name).is_dir() else []
        done = subprocess.run([*command, found, *corpus], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    executed = re.search(r"Done (\d+) (?:runs )?in (\d+) second", done.stderr)
    assert executed is not None, done.stderr[-2000:]
    return executed[1]


def write_corpus() -> None:
    for target in TARGETS.values():
        directory = CORPUS / target.name
        directory.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.seeds()):
            (directory / f"seed-{number}").write_bytes(seed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them by default")
    parser.add_argument("--seconds", type=int, default=0, help="for each target")
    parser.add_argument("--runs", type=int, default=0, help="of each target at most")
    parser.add_argument("--write-corpus", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if arguments.write_corpus:
        write_corpus()
        return
    failed = False
    for name in arguments.targets or TARGETS:
        try:
            print(f"{name}: {fuzz(TARGETS[name], arguments.seconds, arguments.runs)} executions", flush=True)
        except RuntimeError as error:
            failed = True
            print(f"{name}: FAILED\n{error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
