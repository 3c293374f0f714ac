"""Reads input while the writer of what is read is watched: a pipe may stay open and never give another line."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO

LOOK_MILLISECONDS = 200
"""How often `check` is called while the input gives nothing."""


def watched(file: BinaryIO, check: Callable[[], object]) -> BinaryIO:
    """The rest of `file`, of which nothing is buffered; while it gives nothing, what `check` raises ends the read."""
    return BufferedReader(_WatchedFile(file, check))


class _WatchedFile(RawIOBase):
    """Waits in `poll`, not in `read`. Does not close the file, which is its caller's."""

    def __init__(self, file: BinaryIO, check: Callable[[], object]) -> None:
        self._file = file
        self._check = check
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._poll.poll(LOOK_MILLISECONDS):
            self._check()
        return os.readv(self._file.fileno(), [buffer])
