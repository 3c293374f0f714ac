"""Example programs that run, and are talked to in lines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 120


class Program:
    """An example that runs, and is talked to in lines."""

    def __init__(self, uri: str, name: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name), *arguments],
            env={**os.environ, "BOOKLEDGER_METADATA": uri},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hears(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def ends(self) -> tuple[int, str, str]:
        """Exit code, what else it said, and what it said on stderr."""
        said, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, said, errors

    def all_else(self) -> str:
        """What it said before it was killed, behind the lines that `says` gave: `communicate` would leave out what was
        read together with those."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


@contextmanager
def program(uri: str, name: str, *arguments: str) -> Iterator[Program]:
    running = Program(uri, name, *arguments)
    with running.process:
        try:
            yield running
        finally:
            running.process.kill()
