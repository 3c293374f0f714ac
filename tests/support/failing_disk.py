"""A disk that fails under one real process, by a library that is preloaded into it (`failing_disk.c`)."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from .compiled import library

SOURCE = Path(__file__).with_suffix(".c")

LOG = "/log/0"
INDEX = "/index/data.mdb"
"""What the paths of a bookie's files have in them, and no others."""


class Call(Enum):
    """What fails. A failed sync also takes back what it should have saved; with HANG syncs wait for another rule."""

    SYNC = "sync"
    WRITE = "write"
    READ = "read"
    HANG = "hang"


def compiled(directory: Path) -> Path:
    """The library, made in this directory; skips the test where that cannot be done."""
    return library(SOURCE, directory)


class FailingDisk:
    """The disk of whoever is started with `environment`; good until it is told to fail."""

    def __init__(self, made: Path, directory: Path) -> None:
        self._rule = directory / "failing-disk"
        self.environment = {"LD_PRELOAD": str(made), "FAILING_DISK": str(self._rule)}

    def fail(self, call: Call, files: str, *, good: int = 0, bad: int = 1, at: int | None = None) -> None:
        """Of these calls on files with `files` in their path, `good` more go well, and then `bad` fail with EIO.

        With `at` only those count that read or write the byte at this offset.
        """
        new = self._rule.with_suffix(".new")
        new.write_text(f"{call.value} {files} {good} {bad} {-1 if at is None else at}\n")
        os.rename(new, self._rule)

    @property
    def failures(self) -> int:
        """How many calls have failed so far."""
        counted = Path(f"{self._rule}.failures")
        return counted.stat().st_size if counted.exists() else 0
