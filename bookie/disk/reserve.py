"""Space kept back for fences and recovery writes: a full disk must not keep a ledger from being recovered (B4).

It is given out bit by bit, as such writes need it, so that nobody else on the disk takes the rest.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Lock
from typing import Protocol

from .disk import sync_directory

log = logging.getLogger(__name__)

NAME = "reserve"

RESERVE_SHARE_MAX = 0.02
"""Most of a small disk that the reserve takes."""

RELEASE_BYTES_MIN = 64 * 1024
"""Least that is given out at once."""


class Reserve(Protocol):
    """Space that is given out when a disk is full, and taken again when it has room. For any thread."""

    @property
    def is_touched(self) -> bool:
        """Whether some was given out: what the disk has left is for fences and recovery writes only."""
        ...

    def release(self, size: int) -> bool:
        """Frees so many bytes of the disk, or what there is left; False when there is nothing left."""
        ...


class NoReserve:
    """For disks whose space is nobody's concern."""

    is_touched = False

    def release(self, size: int) -> bool:
        del size
        return False


class FileReserve:
    """A file of reserved blocks in the bookie's directory. `restore` may take as long as the disk wants."""

    def __init__(self, directory: Path, size: int) -> None:
        self._path = directory / NAME
        self._size = size
        self._lock = Lock()
        self._left = self._path.stat().st_size if self._path.exists() else 0

    @property
    def is_touched(self) -> bool:
        return self._left != self._size

    def restore(self) -> bool:
        """Takes the whole space, unless it is there; says whether it is."""
        with self._lock:
            if self.is_touched:
                try:
                    self._resize(self._size)
                except OSError as error:
                    log.debug("no room for the reserve yet: %s", error)
            return not self.is_touched

    def release(self, size: int) -> bool:
        with self._lock:
            if not self._left:
                return False
            if not self.is_touched:
                log.warning("the disk is full: fences and recovery writes are taken from the reserve")
            self._resize(max(0, self._left - max(size, RELEASE_BYTES_MIN)))
            return True

    def _resize(self, size: int) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if size > self._left:
                os.posix_fallocate(fd, 0, size)
            os.ftruncate(fd, size)
            os.fsync(fd)
            self._left = size
        finally:
            os.close(fd)
        sync_directory(self._path.parent)


def reserve_size(wanted_bytes: int, disk_bytes: int) -> int:
    """How large a reserve is kept on a disk of this size."""
    return max(1, min(wanted_bytes, int(disk_bytes * RESERVE_SHARE_MAX)))
