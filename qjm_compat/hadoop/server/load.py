"""What all connections of a port hold together: calls under way and bytes, and who gives way when it is too much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..limits import NodeLimits

LEFT_BEHIND_MAX = 1024
"""Calls under way above `calls_max`: of connections that are gone, and one of each that is there."""


class Holder(Protocol):
    """A connection, as far as it holds something."""

    @property
    def held_bytes(self) -> int:
        """Read and not begun, not whole, or written and not taken. Calls under way are counted elsewhere."""
        ...

    @property
    def called_bytes(self) -> int:
        """Of its calls under way."""
        ...

    def refuse(self, why: str) -> None:
        """Ends it, with a word to the peer."""
        ...


class Load:
    """Of one port."""

    def __init__(self, limits: NodeLimits) -> None:
        self._limits = limits
        self.calls = 0
        self.calls_bytes = 0

    def count(self, calls: int, size_bytes: int) -> None:
        """So many more of them are under way, or fewer: also where a connection is gone, its calls go on."""
        self.calls += calls
        self.calls_bytes += size_bytes

    def may_begin(self, under_way: int) -> bool:
        """Whether a connection with so many calls under way may begin another one."""
        return self.calls < self._limits.calls_max + (LEFT_BEHIND_MAX if under_way == 0 else 0)

    def relieve(self, holders: Iterable[Holder]) -> None:
        """Ends the one that holds most, where all of them hold too much."""
        everybody = list(holders)
        held = self.calls_bytes + sum(one.held_bytes for one in everybody)
        limit = self._limits.buffered_bytes_max
        if held > limit:
            largest = max(everybody, key=lambda one: one.held_bytes + one.called_bytes)
            largest.refuse(
                f"all connections hold more than {limit} bytes, and this one most: send less at a time"
            )
