"""The log's file interface, and its implementation with the operating system's files.

A new file's name is durable only after `sync_directory`, and its bytes only after `datasync`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..errors import DataDirectoryError, DirectoryLost

IOV_MAX = 1024
"""Maximum number of buffers per writev call; the kernel refuses more."""

_ZEROS = bytes(1024 * 1024)


class LogFile(Protocol):
    """One file of the log. Methods raise OSError if the operating system reports an error."""

    def write(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        """Writes all buffers one after the other, starting at `offset`; raises OSError unless all were written."""
        ...

    def datasync(self) -> None:
        """Returns once all written bytes are on disk. After an error, assume nothing about them (rule B1).

        Raises DirectoryLost if the file's name no longer refers to this file, because no later process would then read
        the file.
        """
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Reads `size` bytes; returns fewer only at the end of the file."""
        ...

    def zero(self, offset: int, size: int) -> None:
        """Writes zeros to [offset, offset+size), which becomes part of the file."""
        ...

    def reserve(self, offset: int, size: int) -> None:
        """Reserves space for [offset, offset+size), which reads as zeros."""
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory of log files."""

    def create(self, name: str) -> LogFile:
        """Creates an empty file. Raises FileExistsError."""
        ...

    def open(self, name: str) -> LogFile:
        """Opens an existing file for reading and writing. Raises FileNotFoundError."""
        ...

    def names(self) -> list[str]: ...

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None:
        """Returns once all created and removed names are durable."""
        ...


class OsFile:
    """A LogFile backed by the operating system. Thread-safe, because every call specifies its own offset."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path = str(path)
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._opened = os.fstat(self._fd)

    def write(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        try:
            for start in range(0, len(buffers), IOV_MAX):
                offset = self._write_some(buffers[start : start + IOV_MAX], offset)
        except OSError as error:
            self._name_in(error)
            raise

    def _name_in(self, error: OSError) -> None:
        """Adds the file's path to an error."""
        error.filename = self._path

    def _write_some(self, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        total = sum(map(len, buffers))
        written = os.pwritev(self._fd, buffers, offset)
        if written < total:  # a short write (signal, quota, disk nearly full): write the rest in steps
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                step = os.pwrite(self._fd, rest, offset + total - len(rest))
                if step == 0:
                    raise OSError(errno.EIO, "the disk accepts no more bytes but reports no error")
                rest = rest[step:]
        return offset + total

    def datasync(self) -> None:
        try:
            os.fdatasync(self._fd)
            self._check_name()
        except OSError as error:
            self._name_in(error)
            raise

    def _check_name(self) -> None:
        """Raises DirectoryLost if the path no longer refers to the open file, because the bytes synced to it are then
        lost."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            raise DirectoryLost(self._path) from None
        if not os.path.samestat(named, self._opened):
            raise DirectoryLost(self._path)

    def read(self, size: int, offset: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            return data if len(data) == size or not data else self._read_on(data, size, offset)
        except OSError as error:
            self._name_in(error)
            raise

    def _read_on(self, data: bytes, size: int, offset: int) -> bytes:
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def zero(self, offset: int, size: int) -> None:
        for start in range(offset, offset + size, len(_ZEROS)):
            self.write([_ZEROS[: min(len(_ZEROS), offset + size - start)]], start)

    def reserve(self, offset: int, size: int) -> None:
        os.posix_fallocate(self._fd, offset, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # A file shared by reading threads is closed when the last of them releases it.
        if hasattr(self, "_fd"):
            self.close()


class OsDisk:
    """A Disk backed by a directory of the operating system; its files are OsFiles."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, name: str) -> OsFile:
        return OsFile(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, name: str) -> OsFile:
        try:
            return OsFile(self._directory / name, os.O_RDWR)
        except IsADirectoryError:
            raise DataDirectoryError(
                f"{self._directory / name} is a directory, but should be a log file: move it away, and put the log "
                "file back; if the file is lost, `bookledger bookie salvage` reports what is missing"
            ) from None

    def names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def remove(self, name: str) -> None:
        os.unlink(self._directory / name)

    def sync_directory(self) -> None:
        sync_directory(self._directory)


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable, by fsync."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
