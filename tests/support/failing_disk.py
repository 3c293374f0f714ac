"""A disk that fails under one real process, by a library that is preloaded into it (`failing_disk.c`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

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
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("failing a process's calls needs Linux and a C compiler")
    headers = subprocess.run(
        [compiler, "-E", "-include", "unistd.h", "-x", "c", os.devnull], capture_output=True, check=False
    )
    if headers.returncode != 0:
        pytest.skip("the C compiler has no headers of the C library")
    library = directory / "failing_disk.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return library


class FailingDisk:
    """The disk of whoever is started with `environment`; good until it is told to fail."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._rule = directory / "failing-disk"
        self.environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(self._rule)}

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
