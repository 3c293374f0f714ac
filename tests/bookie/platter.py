"""What a simulated file is: its bytes as programs see them, as the platter has them, and what lies between.

What no sync has covered is kept as single changes, so that a crash can take any part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

SECTOR_BYTES = 32
"""Bytes that a crash keeps or loses together. Much smaller than a real one, so that records get torn."""

SECTORS_TORN = 0.3
"""How often a sector fares otherwise than the one before it."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes for one place of a file; `prepares`: only zeros for what is to come."""

    number: int
    offset: int
    data: bytes
    prepares: bool = False

    def apply(self, content: bytearray) -> None:
        if self.data:
            content.extend(bytes(max(0, self.offset - len(content))))
            content[self.offset : self.end] = self.data

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Truncate:
    """The file ends at this size; what was missing up to it is zeros."""

    number: int
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(slots=True, eq=False)
class Inode:
    """A file's bytes as programs see them, as the platter has them, and what lies between.

    `kept_through`: behind it lie only zeros and what was never synced.
    """

    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Write | Truncate] = field(default_factory=list)
    kept_through: int = 0

    def apply(self, change: Write | Truncate) -> None:
        """Programs see the change; a crash may take it, or parts of it."""
        change.apply(self.live)
        self.unsynced.append(change)

    def sync(self) -> None:
        """A crash takes none of it any more."""
        for change in self.unsynced:
            change.apply(self.durable)
            if isinstance(change, Truncate):
                self.kept_through = min(self.kept_through, change.size)
            elif not change.prepares:
                self.kept_through = max(self.kept_through, change.end)
        self.unsynced.clear()

    def survive_chaos(self, random: Random) -> None:
        """Each sector, and the size, as it stood after some number of the changes."""
        versions = [bytes(self.durable)]
        for change in self.unsynced:
            change.apply(self.durable)
            versions.append(bytes(self.durable))
        size = len(random.choice(versions))
        kept = bytearray()
        for start in range(0, size, SECTOR_BYTES):
            if not start or random.random() < SECTORS_TORN:
                version = random.choice(versions)
            kept += version[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        self.durable = kept[:size]

    def survive_ordered(self, random: Random, through: int) -> None:
        """All changes before that number, and the one of that number torn at a byte."""
        for change in self.unsynced:
            if change.number < through:
                change.apply(self.durable)
            elif change.number == through and isinstance(change, Write):
                replace(change, data=change.data[: random.randrange(len(change.data) + 1)]).apply(
                    self.durable
                )

    def spoil(self, random: Random) -> None:
        """Some part of what was being written became other bytes: random ones, or such as stand elsewhere."""
        end = max((w.end for w in self.unsynced if isinstance(w, Write) and not w.prepares), default=0)
        end = min(end, len(self.durable))
        if end > self.kept_through:
            start = random.randrange(self.kept_through, end)
            size = random.randint(1, end - start)
            elsewhere = random.randrange(self.kept_through + 1)
            stale = bytes(self.durable[elsewhere : elsewhere + size])
            garbage = stale if random.random() < 0.5 else random.randbytes(size)
            self.durable[start : start + len(garbage)] = garbage

    def change_platter(self, offset: int, data: bytes) -> None:
        """The platter is another; nothing that was read before is in memory any more."""
        assert offset + len(data) <= len(self.durable)
        self.durable[offset : offset + len(data)] = data
        self.live = bytearray(self.durable)
        for change in self.unsynced:
            change.apply(self.live)
