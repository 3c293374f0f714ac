"""Disk space reserved for fences and recovery writes: a full disk must not prevent the recovery of a ledger (rule B4).

The reserve is released in small steps, as these writes need space, so that other programs cannot take the rest.
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
"""The reserve's maximum share of the disk, for small disks."""

RELEASE_BYTES_MIN = 64 * 1024
"""Minimum number of bytes freed by one release."""


class Reserve(Protocol):
    """Space that is released when the disk is full, and reserved again when the disk has room. Thread-safe."""

    @property
    def is_touched(self) -> bool:
        """Whether part of the reserve has been released: if so, only fences and recovery writes may use the disk's
        remaining space."""
        ...

    def release(self, size: int) -> bool:
        """Frees `size` bytes of the disk, or the rest of the reserve if that is less; returns False if the reserve is
        empty."""
        ...


class NoReserve:
    """An empty reserve."""

    is_touched = False

    def release(self, size: int) -> bool:
        del size
        return False


class FileReserve:
    """A file of preallocated blocks in the bookie's directory. `restore` may block on disk I/O."""

    def __init__(self, directory: Path, size: int) -> None:
        self._path = directory / NAME
        self._size = size
        self._lock = Lock()
        self._left = self._path.stat().st_size if self._path.exists() else 0

    @property
    def is_touched(self) -> bool:
        return self._left != self._size

    @property
    def size_bytes(self) -> int:
        """Full size of the reserve."""
        return self._size

    @property
    def left_bytes(self) -> int:
        """Size of the part that has not been released."""
        return self._left

    def restore(self) -> bool:
        """Allocates the released space again; returns whether the reserve is complete."""
        with self._lock:
            if self.is_touched:
                try:
                    self._resize(self._size)
                except OSError as error:
                    log.debug("cannot allocate the disk reserve yet: %s", error)
            return not self.is_touched

    def release(self, size: int) -> bool:
        with self._lock:
            if not self._left:
                return False
            if not self.is_touched:
                log.warning("the disk is full: fences and recovery writes use the reserve")
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
    """Returns the size of the reserve on a disk of this size."""
    return max(1, min(wanted_bytes, int(disk_bytes * RESERVE_SHARE_MAX)))
