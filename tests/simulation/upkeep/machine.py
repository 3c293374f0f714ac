"""The machine that a bookie runs on: its disk and its index, which outlive the process, and its power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import lmdb

from bookie.index.index import Index
from bookie.log.format import SEGMENT_HEADER
from bookie.log.segment_files import resume_or_begin
from tests.bookie.logs import INCARNATION
from tests.bookie.platter import Inode
from tests.bookie.simulated_disk import Loss, SimulatedDisk, disk_with
from tests.simulation.engine.threads import Died, ThreadedLoop

from .shelf import SHELF, forget_memory

LOSSES = {"chaos": Loss.CHAOS, "ordered": Loss.ORDERED, "garbage": Loss.GARBAGE}


class SharedDisk(SimulatedDisk):
    """A disk whose users may be overtaken, and are gone with the power."""

    loop: ThreadedLoop | None = None

    def _check_power(self) -> None:
        if self.is_off:
            raise Died

    def touch(self) -> None:
        """Somebody changes something on the machine that is not on this disk."""
        self._operate()

    def _operate(self) -> None:
        self._overtake()
        super()._operate()

    def read_of(self, inode: Inode, size: int, offset: int) -> bytes:
        self._overtake()
        return super().read_of(inode, size, offset)

    def _overtake(self) -> None:
        if self.loop is not None:
            self._check_power()
            self.loop.overtake()


class Machine:
    """One bookie's. `again`: when the power goes in the next start; `how` it goes."""

    def __init__(self, seed: int) -> None:
        self.disk = SharedDisk(Random(seed))
        self.aside = SimulatedDisk(Random(seed))
        self.index = SHELF.take()
        self.how = "chaos"
        self.again: int | None = None
        resume_or_begin(self.disk, 0, INCARNATION).close()

    def arm(self, after: int, how: str, again: int | None) -> None:
        """The power goes before that operation."""
        self.how, self.again = how, again
        self.disk.power_off_before(after)

    def crash(self) -> None:
        """Loses what the power cut takes, and turns the power on."""
        if self.how == "kill":
            self.disk._power_off_at = None
        else:
            self.disk.crash(LOSSES[self.how])
        if self.again is not None:
            self.disk.power_off_before(self.again)
            self.again = None

    def calm(self) -> None:
        """Nothing goes wrong from here on."""
        self.again = None
        self.disk.heal()

    def replace_index(self, index: Index) -> None:
        SHELF.give_back(self.index)
        self.index = index

    def lose_index(self) -> None:
        self.replace_index(SHELF.take())

    def boot(self, loop: ThreadedLoop) -> None:
        """A process begins: what another had in memory is gone."""
        forget_memory(self.index)
        self.disk.loop = loop

    def halt(self) -> None:
        """No process runs."""
        self.disk.loop = None

    def copy_of_disk(self) -> SimulatedDisk:
        """The same bytes on a disk that nothing happens to."""
        return disk_with(self.disk.contents().items(), Random(0))

    def sealed(self) -> list[str]:
        """Names of the segments that something follows which a crash cannot take."""
        files = self.disk.durable_contents()
        newest = max((name for name, data in files.items() if len(data) >= SEGMENT_HEADER.size), default="")
        return sorted(name for name in files if name < newest and name in self.disk.contents())

    def close(self) -> None:
        SHELF.give_back(self.index)

    @contextmanager
    def powers_the_index(self) -> Iterator[None]:
        """It stays open: LMDB's files outlive the runs."""
        touched = lambda index: self.disk if index is self.index else None  # noqa: E731
        with index_needs_power(touched), patch.object(Index, "close", lambda _: None):
            yield


@contextmanager
def index_needs_power(disk_of: Callable[[Index], SharedDisk | None]) -> Iterator[None]:
    """Before each change of an index the power of the machine with this disk may go, too."""
    writing = Index._writing

    @contextmanager
    def counted(index: Index) -> Iterator[lmdb.Transaction]:
        disk = disk_of(index)
        if disk is not None:
            disk.touch()
        with writing(index) as txn:
            yield txn

    with patch.object(Index, "_writing", counted):
        yield
