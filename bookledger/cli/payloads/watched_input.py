"""Reads input while it watches the writer of the data: a pipe may stay open and never yield another line."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO

LOOK_MILLISECONDS = 200
"""Interval of calls of `check` while the input yields nothing."""


def watched(file: BinaryIO, check: Callable[[], object]) -> BinaryIO:
    """The unread part of `file`, unbuffered; while the input yields nothing, an error of `check` ends the read."""
    return BufferedReader(_WatchedFile(file, check))


class _WatchedFile(RawIOBase):
    """Waits in `poll`, not in `read`. Does not close the file, which belongs to the caller."""

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
