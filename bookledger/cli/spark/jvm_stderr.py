"""Captures the stderr of Spark's JVM: keeps it off the terminal, and its last lines for a failed start."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

LINES_KEPT_MAX = 200
LINE_BYTES_MAX = 4096
END_SECONDS_MAX = 2.0


class LastLines:
    """The last lines from a pipe, read until all its writers are gone."""

    def __init__(self, readable: int) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self._reader = Thread(target=self._read, args=(readable,), name="last lines", daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def wait_for_end(self) -> None:
        """Waits until the writers have ended, or for END_SECONDS_MAX."""
        self._reader.join(END_SECONDS_MAX)

    def _read(self, readable: int) -> None:
        with os.fdopen(readable, "rb") as pipe:
            while line := pipe.readline(LINE_BYTES_MAX):
                self._lines.append(line.decode(errors="replace").rstrip())


@contextmanager
def children_quiet() -> Iterator[LastLines]:
    """Redirects the stderr of processes started inside the block, for their lifetime, to its LastLines."""
    readable, writable = os.pipe()
    lines = LastLines(readable)
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(writable, 2)
    os.close(writable)
    try:
        yield lines
    finally:
        os.dup2(kept, 2)
        os.close(kept)
