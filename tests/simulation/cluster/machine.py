"""The machine that a bookie runs on: disk, index and directory, which outlive its processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace

from bookie.disk.reserve import NAME as RESERVE
from bookie.index.index import Index
from bookie.serving.directory import COOKIE
from tests.bookie.simulated_disk import Loss
from tests.simulation.engine.processes import HostLoop
from tests.simulation.upkeep.machine import SharedDisk

BLOCK_BYTES = 4096
DISK_BYTES = 1 << 24
"""Far more than a run writes."""


class MachineDisk(SharedDisk):
    """One that is as full as its machine says."""

    def __init__(self, loop: HostLoop, random: Random, room: Callable[[], int]) -> None:
        self._room_left = room
        super().__init__(random)
        self.loop = loop

    @property
    def capacity_bytes(self) -> int | None:
        return self.used_bytes + self._room_left()

    @capacity_bytes.setter
    def capacity_bytes(self, _: int | None) -> None:
        """The machine decides."""


@dataclass(frozen=True, slots=True)
class Backup:
    """All that a machine holds, as it was at one moment."""

    files: Mapping[str, bytes]
    directory: Path


class Machine:
    """One machine. `directory` is where its data directory stands, `left` what its disk still takes, if little."""

    def __init__(self, loop: HostLoop, name: str, seed: int, directory: Path) -> None:
        self._loop = loop
        self._name = name
        self._random = Random(f"{seed} {name}")
        self.directory = directory
        self._capacity = DISK_BYTES
        self.disk = MachineDisk(loop, self._random, self._room)
        self.has_lost = False
        """Whether it may lack what it has acknowledged."""
        self._index: Index | None = None
        self._copies = 0

    # --- what a process opens -------------------------------------------------------------------

    def open_index(self, path: Path) -> Index:
        """What a process that was killed had open is not open any more."""
        self.close_index()
        self._index = Index(path)
        return self._index

    def close_index(self) -> None:
        if self._index is not None:
            self._index._env.close()
            self._index = None

    def statvfs(self) -> SimpleNamespace:
        """What `os.statvfs` says."""
        free = max(0, self._room()) // BLOCK_BYTES
        return SimpleNamespace(
            f_blocks=DISK_BYTES // BLOCK_BYTES, f_frsize=BLOCK_BYTES, f_bavail=free, f_bfree=free
        )

    # --- what happens to it ---------------------------------------------------------------------

    def lose_power(self, loss: str) -> None:
        """And the power comes back."""
        self.disk.crash(Loss[loss.upper()])

    def fill_up(self, left: int) -> None:
        """Somebody else takes all but so many bytes."""
        self._capacity = self.disk.used_bytes + self._reserved() + left

    def has_room(self) -> None:
        self._capacity = DISK_BYTES

    def wipe(self) -> None:
        """An empty disk."""
        self.close_index()
        shutil.rmtree(self.directory, ignore_errors=True)  # it may be gone already
        self.disk = MachineDisk(self._loop, self._random, self._room)
        self.has_lost = True

    def backed_up(self) -> Backup:
        """A copy of all that is on disk."""
        self._copies += 1
        copy = self.directory.with_name(f"copy-{self._copies}-of-{self._name}")
        shutil.copytree(self.directory, copy)
        return Backup(self.disk.durable_contents(), copy)

    def is_mine(self, backup: Backup) -> bool:
        """Whether it is of the bookie, and the incarnation, whose disk this is."""
        mine, theirs = self.directory / COOKIE, backup.directory / COOKIE
        return mine.exists() and theirs.exists() and mine.read_bytes() == theirs.read_bytes()

    def restore(self, backup: Backup) -> None:
        """As it was then; whoever restores it makes room for it."""
        self.wipe()
        self.has_room()
        shutil.copytree(backup.directory, self.directory)
        for name, data in backup.files.items():
            file = self.disk.create(name)
            file.write([data], 0)
            file.datasync()
        self.disk.sync_directory()

    def exchange(self, other: Machine) -> None:
        """Each has what the other had."""
        self.close_index()
        other.close_index()
        self.directory, other.directory = other.directory, self.directory
        self.disk, other.disk = other.disk, self.disk
        self.disk._room_left, other.disk._room_left = self._room, other._room
        self.has_lost, other.has_lost = other.has_lost, self.has_lost

    def _reserved(self) -> int:
        reserve = self.directory / RESERVE
        return reserve.stat().st_size if reserve.exists() else 0

    def _room(self) -> int:
        """Bytes that can still be written."""
        return self._capacity - self.disk.used_bytes - self._reserved()
