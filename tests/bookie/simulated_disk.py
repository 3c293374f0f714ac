"""A disk in memory that forgets what was not synced, and fails when a test says so.

It keeps the contract of `bookie.disk.disk.Disk`, no more: a crash may take any part of what no sync has
covered (`Loss` says how). After a failed sync the kernel holds the bytes as clean: they can be read
until the crash, later syncs succeed and do not save them.

What was synced can be damaged on purpose: bytes on the platter become others, reads fail, the
whole disk is wiped.

All chance comes from the `random.Random` given to it: the same seed, the same crash. One lock, so
that the log's thread and a test may use it together.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.bookie.platter import Inode, Truncate, Write


class Loss(Enum):
    """What a crash leaves of the operations that no sync has covered."""

    CHAOS = "each sector, each size and each name by itself, as it stood after some of them"
    ORDERED = "the first so many of them, the last of these torn at a byte"
    GARBAGE = "like chaos, but what was being written may have become any bytes"


class PowerOff(OSError):
    """The machine is off; every operation fails until `crash` has turned it on again."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the power is off")


@dataclass(frozen=True, slots=True)
class _BadRead:
    """Reads that touch [start, end) of a file fail."""

    inode: Inode
    start: int
    end: int


class SimulatedDisk:
    """A directory of files. Implements `bookie.disk.disk.Disk`.

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
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._name_changes: list[tuple[int, str]] = []
        self._bad_reads: list[_BadRead] = []
        self._power_off_at: int | None = None
        self._fail_sync_at: tuple[int, OSError] | None = None
        self._lock = threading.RLock()

    # --- the contract of Disk

    def create(self, name: str) -> SimulatedFile:
        with self._lock:
            self._operate()
            if name in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            self._names[name] = Inode()
            self._name_changes.append((self.operations, name))
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
            self._name_changes.append((self.operations, name))

    def sync_directory(self) -> None:
        with self._lock:
            self._operate()
            self._durable_names = dict(self._names)
            self._name_changes.clear()

    # --- what a test does to it

    def power_off_before(self, operation: int) -> None:
        """The power goes before the changing operation of this number, 0 for the next one."""
        self._power_off_at = self.operations + operation

    def fail_sync_after(self, good_syncs: int, error: OSError) -> None:
        """One file's sync fails, after so many good ones; what it should have saved is lost in a crash."""
        self._fail_sync_at = (self.syncs + good_syncs, error)

    def crash(self, loss: Loss = Loss.CHAOS) -> None:
        """Loses what a power cut may lose, and turns the power on."""
        with self._lock:
            through = self._ordered_through() if loss is Loss.ORDERED else None
            names = self._surviving_names(through)
            for name in sorted(names):
                inode = names[name]
                if through is None:
                    inode.survive_chaos(self.random)
                else:
                    inode.survive_ordered(self.random, through)
                if loss is Loss.GARBAGE:
                    inode.spoil(self.random)
                inode.unsynced.clear()
                inode.live = bytearray(inode.durable)
            self._names, self._durable_names = names, dict(names)
            self._name_changes.clear()
            self.heal()

    def heal(self) -> None:
        """Reads and syncs work, and the power is on: all but what stands on the platter."""
        self._power_off_at = self._fail_sync_at = None
        self.mend_reads()

    def contents(self) -> dict[str, bytes]:
        """Every file's bytes as they read now."""
        return {name: bytes(inode.live) for name, inode in self._names.items()}

    def durable_contents(self) -> dict[str, bytes]:
        """Every file that a crash cannot take, with the bytes that it cannot take."""
        return {name: bytes(inode.durable) for name, inode in self._durable_names.items()}

    def durable_bytes(self, name: str, start: int, end: int) -> bytes:
        """What a crash cannot take of this part of a file; nothing where it cannot even keep the name."""
        inode = self._durable_names.get(name)
        return b"" if inode is None else bytes(inode.durable[start:end])

    @property
    def used_bytes(self) -> int:
        """What all files take together."""
        return sum(len(inode.live) for inode in self._names.values())

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Bit rot: the bytes are others, on the platter too."""
        inode = self._names[name]
        inode.sync()
        inode.live[offset : offset + len(data)] = inode.durable[offset : offset + len(data)] = data

    def resize(self, name: str, size: int) -> None:
        """A file that lost its end, or ends in zeros nobody wrote."""
        inode = self._names[name]
        inode.sync()
        Truncate(0, size).apply(inode.live)
        Truncate(0, size).apply(inode.durable)

    def lose(self, name: str) -> None:
        """The file is gone for good."""
        del self._names[name]
        self._durable_names.pop(name, None)

    def wipe(self) -> None:
        """All files are gone for good."""
        for name in list(self._names):
            self.lose(name)
        self._durable_names.clear()
        self._name_changes.clear()

    def rot(self, name: str, offset: int, data: bytes) -> None:
        """These bytes on the platter are others; what is not synced yet stays so."""
        self._names[name].change_platter(offset, data)

    def fail_reads(self, name: str, start: int, end: int) -> None:
        """Reads that touch these bytes fail with EIO until `heal`."""
        self._bad_reads.append(_BadRead(self._names[name], start, end))

    def mend_reads(self) -> None:
        """Every read gives what is there."""
        self._bad_reads.clear()

    # --- how

    @property
    def is_off(self) -> bool:
        """Whether the power has gone."""
        return self._power_off_at is not None and self.operations >= self._power_off_at

    def _check_power(self) -> None:
        if self.is_off:
            raise PowerOff

    def _operate(self) -> None:
        self._check_power()
        self.operations += 1

    def _ordered_through(self) -> int:
        """The operation that the power cut met: those before it happened, those behind it did not."""
        numbers = [number for number, _ in self._name_changes]
        for inode in {id(i): i for i in (*self._names.values(), *self._durable_names.values())}.values():
            numbers += [change.number for change in inode.unsynced]
        return self.random.choice([*sorted(numbers), self.operations + 1])

    def _surviving_names(self, through: int | None) -> dict[str, Inode]:
        names = dict(self._durable_names)
        kept = {name for number, name in self._name_changes if through is not None and number < through}
        for name in sorted(self._names.keys() ^ names.keys()):
            if name in kept or (through is None and self.random.random() < 0.5):
                if name in self._names:
                    names[name] = self._names[name]
                else:
                    del names[name]
        return names

    def _room(self, inode: Inode, end: int) -> int:
        """How far the file can reach, up to `end`."""
        if self.capacity_bytes is None:
            return end
        used = sum(len(other.live) for other in self._names.values() if other is not inode)
        return min(end, max(len(inode.live), self.capacity_bytes - used))

    def write_to(self, inode: Inode, data: bytes, offset: int, *, prepares: bool = False) -> None:
        with self._lock:
            self._operate()
            fits = self._room(inode, offset + len(data)) - offset
            inode.apply(Write(self.operations, offset, data[: max(0, fits)], prepares))
            if fits < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate_to(self, inode: Inode, size: int) -> None:
        with self._lock:
            self._operate()
            inode.apply(Truncate(self.operations, size))

    def sync_of(self, inode: Inode) -> None:
        with self._lock:
            self._operate()
            if self._fail_sync_at is not None and self.syncs >= self._fail_sync_at[0]:
                error, self._fail_sync_at = self._fail_sync_at[1], None
                inode.unsynced.clear()
                raise error
            self.syncs += 1
            inode.sync()

    def read_of(self, inode: Inode, size: int, offset: int) -> bytes:
        with self._lock:
            self._check_power()
            for bad in self._bad_reads:
                if bad.inode is inode and offset < bad.end and bad.start < offset + size:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return bytes(inode.live[offset : offset + size])

    def size_of(self, inode: Inode) -> int:
        with self._lock:
            self._check_power()
            return len(inode.live)


class SimulatedFile:
    """An open file. Implements `bookie.disk.disk.LogFile`."""

    def __init__(self, disk: SimulatedDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        self._disk.write_to(self._inode, b"".join(buffers), offset)

    def datasync(self) -> None:
        self._disk.sync_of(self._inode)

    def read(self, size: int, offset: int) -> bytes:
        return self._disk.read_of(self._inode, size, offset)

    def zero(self, offset: int, size: int) -> None:
        self._disk.write_to(self._inode, bytes(size), offset, prepares=True)

    def reserve(self, offset: int, size: int) -> None:
        held = self._disk.size_of(self._inode)
        if offset + size > held:
            self._disk.write_to(self._inode, bytes(offset + size - held), held, prepares=True)

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
