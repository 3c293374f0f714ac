"""A disk in memory that forgets what was not synced, and fails when a test says so.

It keeps the contract of `bookie.disk.Disk`, no more: a crash may take any part of what no sync has
covered. Each sector of a file comes back as it stood after some of the unsynced operations, each
sector by itself, the file's size likewise; each name created or removed since the last
`sync_directory` comes back or does not. After a failed sync the kernel holds the bytes as clean:
they can be read until the crash, later syncs succeed and do not save them.

All chance comes from the `random.Random` given to it: the same seed, the same crash. One lock, so
that the log's thread and a test may use it together.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

SECTOR_BYTES = 32
"""Bytes that a crash keeps or loses together. Much smaller than a real one, so that records get torn."""

Change = Callable[[bytearray], None]
"""One operation on the bytes of a file."""


class PowerOff(OSError):
    """The machine is off; every operation fails until `crash` has turned it on again."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the power is off")


@dataclass(slots=True, eq=False)
class _Inode:
    """A file's bytes as programs see them, as the platter has them, and what lies between."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        change(self.live)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            change(self.durable)
        self.unsynced.clear()

    def survive(self, random: Random) -> None:
        """Becomes what a crash at this moment leaves."""
        versions = [bytes(self.durable)]
        for change in self.unsynced:
            change(self.durable)
            versions.append(bytes(self.durable))
        size = len(random.choice(versions))
        self.unsynced.clear()
        self.durable = bytearray(
            b"".join(
                random.choice(versions)[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
                for start in range(0, size, SECTOR_BYTES)
            )[:size]
        )
        self.live = bytearray(self.durable)


class SimulatedDisk:
    """A directory of files. Implements `bookie.disk.Disk`.

    `capacity_bytes`: all files together take no more; a write past it is cut short and fails with
    ENOSPC. `power_off_before(n)` fails the n-th changing operation from now, and all after it, with
    PowerOff. `fail_sync_after(n, error)` fails a sync after n good ones. `operations` counts
    the changing ones.
    """

    def __init__(self, random: Random, *, capacity_bytes: int | None = None) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self.syncs = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._power_off_at: int | None = None
        self._fail_sync_at: tuple[int, OSError] | None = None
        self._lock = threading.RLock()

    # --- the contract of Disk

    def create(self, name: str) -> SimulatedFile:
        with self._lock:
            self._operate()
            if name in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            self._names[name] = _Inode()
            return SimulatedFile(self, self._names[name])

    def open(self, name: str) -> SimulatedFile:
        with self._lock:
            self._check_power()
            if name not in self._names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            return SimulatedFile(self, self._names[name])

    def names(self) -> list[str]:
        with self._lock:
            self._check_power()
            return sorted(self._names)

    def remove(self, name: str) -> None:
        with self._lock:
            self._operate()
            if name not in self._names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            del self._names[name]

    def sync_directory(self) -> None:
        with self._lock:
            self._operate()
            self._durable_names = dict(self._names)

    # --- what a test does to it

    def power_off_before(self, operation: int) -> None:
        """The power goes before the changing operation of this number, 0 for the next one."""
        self._power_off_at = self.operations + operation

    def fail_sync_after(self, good_syncs: int, error: OSError) -> None:
        """One file's sync fails, after so many good ones; what it should have saved is lost in a crash."""
        self._fail_sync_at = (self.syncs + good_syncs, error)

    def crash(self) -> None:
        """Loses what a power cut may lose, and turns the power on."""
        with self._lock:
            names = dict(self._durable_names)
            for name in sorted(self._names.keys() ^ names.keys()):
                if self.random.random() < 0.5:
                    if name in self._names:
                        names[name] = self._names[name]
                    else:
                        del names[name]
            for name in sorted(names):
                names[name].survive(self.random)
            self._names, self._durable_names = names, dict(names)
            self._power_off_at = self._fail_sync_at = None

    def contents(self) -> dict[str, bytes]:
        """Every file's bytes as they read now."""
        return {name: bytes(inode.live) for name, inode in self._names.items()}

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Bit rot: the bytes are others, on the platter too."""
        inode = self._names[name]
        inode.sync()
        inode.live[offset : offset + len(data)] = inode.durable[offset : offset + len(data)] = data

    def resize(self, name: str, size: int) -> None:
        """A file that lost its end, or ends in zeros nobody wrote."""
        inode = self._names[name]
        inode.sync()
        _truncate(size)(inode.live)
        _truncate(size)(inode.durable)

    def lose(self, name: str) -> None:
        """The file is gone for good."""
        del self._names[name]
        self._durable_names.pop(name, None)

    # --- how

    def _check_power(self) -> None:
        if self._power_off_at is not None and self.operations >= self._power_off_at:
            raise PowerOff

    def _operate(self) -> None:
        self._check_power()
        self.operations += 1

    def _room(self, inode: _Inode, end: int) -> int:
        """How far the file can reach, up to `end`."""
        if self.capacity_bytes is None:
            return end
        used = sum(len(other.live) for other in self._names.values() if other is not inode)
        return min(end, max(len(inode.live), self.capacity_bytes - used))

    def write_to(self, inode: _Inode, data: bytes, offset: int) -> None:
        with self._lock:
            self._operate()
            fits = self._room(inode, offset + len(data)) - offset
            inode.apply(_write(data[: max(0, fits)], offset))
            if fits < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate_to(self, inode: _Inode, size: int) -> None:
        with self._lock:
            self._operate()
            inode.apply(_truncate(size))

    def sync_of(self, inode: _Inode) -> None:
        with self._lock:
            self._operate()
            if self._fail_sync_at is not None and self.syncs >= self._fail_sync_at[0]:
                error, self._fail_sync_at = self._fail_sync_at[1], None
                inode.unsynced.clear()
                raise error
            self.syncs += 1
            inode.sync()

    def read_of(self, inode: _Inode, size: int, offset: int) -> bytes:
        with self._lock:
            self._check_power()
            return bytes(inode.live[offset : offset + size])

    def size_of(self, inode: _Inode) -> int:
        with self._lock:
            self._check_power()
            return len(inode.live)


class SimulatedFile:
    """An open file. Implements `bookie.disk.LogFile`."""

    def __init__(self, disk: SimulatedDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write(self, buffers: Sequence[bytes], offset: int) -> None:
        self._disk.write_to(self._inode, b"".join(buffers), offset)

    def datasync(self) -> None:
        self._disk.sync_of(self._inode)

    def read(self, size: int, offset: int) -> bytes:
        return self._disk.read_of(self._inode, size, offset)

    def zero(self, offset: int, size: int) -> None:
        self._disk.write_to(self._inode, bytes(size), offset)

    def reserve(self, offset: int, size: int) -> None:
        held = self._disk.size_of(self._inode)
        if offset + size > held:
            self._disk.write_to(self._inode, bytes(offset + size - held), held)

    def truncate(self, size: int) -> None:
        self._disk.truncate_to(self._inode, size)

    def size(self) -> int:
        return self._disk.size_of(self._inode)

    def close(self) -> None:
        pass


def disk_with(files: Iterable[tuple[str, bytes]], random: Random) -> SimulatedDisk:
    """A disk that holds these files, durable."""
    disk = SimulatedDisk(random)
    for name, data in files:
        file = disk.create(name)
        file.write([data], 0)
        file.datasync()
    disk.sync_directory()
    return disk


def _write(data: bytes, offset: int) -> Change:
    def change(content: bytearray) -> None:
        if data:
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data

    return change


def _truncate(size: int) -> Change:
    def change(content: bytearray) -> None:
        del content[size:]
        content.extend(bytes(size - len(content)))

    return change
