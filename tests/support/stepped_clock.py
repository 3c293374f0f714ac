"""A wall clock of one real process that a test steps, by a library that is preloaded into it (`stepped_clock.c`)."""

from __future__ import annotations

import os
from pathlib import Path

from .compiled import library

SOURCE = Path(__file__).with_suffix(".c")


def compiled(directory: Path) -> Path:
    """The library, made in this directory; skips the test where that cannot be done."""
    return library(SOURCE, directory)


class SteppedClock:
    """The wall clock of whoever is started with `environment`; right until it is stepped."""

    def __init__(self, made: Path, file: Path) -> None:
        self._file = file
        self.environment = {"LD_PRELOAD": str(made), "STEPPED_CLOCK": str(file)}

    def step(self, seconds: int) -> None:
        """From now on the clock is so many seconds ahead of the right time; behind, where that is negative."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        os.rename(new, self._file)
