"""What Spark's JVM writes to stderr: kept from the terminal, and its last lines for when it does not start."""

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
    """The last lines of what comes out of a pipe, read until all who write to it are gone."""

    def __init__(self, readable: int) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self._reader = Thread(target=self._read, args=(readable,), name="last lines", daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def wait_for_end(self) -> None:
        """Until who writes has ended, or for END_SECONDS_MAX."""
        self._reader.join(END_SECONDS_MAX)

    def _read(self, readable: int) -> None:
        with os.fdopen(readable, "rb") as pipe:
            while line := pipe.readline(LINE_BYTES_MAX):
                self._lines.append(line.decode(errors="replace").rstrip())


@contextmanager
def children_quiet() -> Iterator[LastLines]:
    """What processes started within this context write to stderr, for as long as they live, goes to its LastLines."""
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
