"""Load shedding across a port's connections: bounds calls and bytes, and closes the connection that holds the most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..node_limits import NodeLimits

CALLS_MAX = 128
"""The most calls in flight of all connections. Beyond it, a connection may start a call only if it has none in flight.
"""

LEFT_BEHIND_MAX = 1024
"""The most calls in flight above CALLS_MAX: those of closed connections, and one for each open connection."""


class Holder(Protocol):
    """A connection and the memory that it holds."""

    @property
    def held_bytes(self) -> int:
        """Bytes of unstarted calls, partial frames, and unsent replies. Calls in flight are counted elsewhere."""
        ...

    @property
    def called_bytes(self) -> int:
        """Bytes of its calls in flight."""
        ...

    def refuse(self, why: str) -> None:
        """Closes the connection, and sends the peer the reason."""
        ...


class LoadShedding:
    """The load of one port."""

    def __init__(self, limits: NodeLimits) -> None:
        self._limits = limits
        self.calls = 0
        self.calls_bytes = 0

    def count(self, calls: int, size_bytes: int) -> None:
        """Adds to, or subtracts from, the calls in flight. Calls of closed connections continue, and count too."""
        self.calls += calls
        self.calls_bytes += size_bytes

    def may_begin(self, under_way: int) -> bool:
        """Returns whether a connection with this many calls in flight may start another one."""
        return self.calls < CALLS_MAX + (LEFT_BEHIND_MAX if under_way == 0 else 0)

    def relieve(self, holders: Iterable[Holder]) -> None:
        """Closes the connection that holds the most, if the connections hold too much in total."""
        everybody = list(holders)
        held = self.calls_bytes + sum(one.held_bytes for one in everybody)
        limit = self._limits.buffered_bytes_max
        if held > limit:
            largest = max(everybody, key=lambda one: one.held_bytes + one.called_bytes)
            largest.refuse(
                f"all connections together hold more than {limit} bytes, and this one most: send less at a time"
            )
