"""Tries a change: in a copy of the tree of its own, for as long as its tests take unchanged, and a while longer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .changes import Change
from .suites import Suite

PATIENCE = 3.0
PATIENCE_SECONDS = 20.0
"""A change that takes so many times as long as none, and so much longer, hangs."""

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", "*.egg-info")


class End(StrEnum):
    """What became of a change."""

    NOTICED = "noticed"
    HUNG = "hung"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Copy:
    """A tree in which one change at a time is made."""

    root: Path

    @classmethod
    def of(cls, tree: Path, root: Path) -> Copy:
        shutil.copytree(tree, root, ignore=NOT_COPIED)
        return cls(root)

    def seconds_unchanged(self, tested: Suite) -> float:
        """How long the tests take. Raises RuntimeError where they fail without any change."""
        began = time.monotonic()
        for command in tested.commands:
            code, output = self._run(command, None)
            if code != 0:
                raise RuntimeError(f"{' '.join(command)} fails on the tree as it is:\n{output}")
        return time.monotonic() - began

    def tried(self, change: Change, tested: Suite, seconds_unchanged: float) -> End:
        """What the tests say of it; the tree is as before afterwards."""
        path = self.root / change.file
        before = path.read_text()
        path.write_text(change.apply(before))
        try:
            return self._end(tested.commands, seconds_unchanged * PATIENCE + PATIENCE_SECONDS)
        finally:
            path.write_text(before)

    def _end(self, commands: Sequence[list[str]], seconds: float) -> End:
        until = time.monotonic() + seconds
        for command in commands:
            code, _ = self._run(command, max(1.0, until - time.monotonic()))
            if code is None:
                return End.HUNG
            if code != 0:
                return End.NOTICED
        return End.SURVIVED

    def _run(self, command: Sequence[str], seconds: float | None) -> tuple[int | None, str]:
        """Its exit code, None where it took too long; whatever it has started ends with it."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        with tempfile.TemporaryFile("w+") as said:
            child = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=said, stderr=said, start_new_session=True
            )
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                _end_group(child)
            said.seek(0)
            return child.returncode, said.read()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nobody is left
    child.wait()
