"""Load shedding across a port's connections: bounds calls and bytes, and closes the connection that holds the most
bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..node_limits import NodeLimits

CALLS_MAX = 128
"""Maximum number of calls in flight on all connections. Beyond that, a connection may start a call only if it has none
in flight."""

LEFT_BEHIND_MAX = 1024
"""Maximum number of calls that may be in flight in addition to CALLS_MAX: those of closed connections, and one for each
open connection."""


class Holder(Protocol):
    """A connection and the memory that it holds."""

    @property
    def held_bytes(self) -> int:
        """Bytes of unstarted calls, partial frames, and unsent replies. Calls in flight are not included."""
        ...

    @property
    def called_bytes(self) -> int:
        """Bytes of the connection's calls in flight."""
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
        """Adds to or subtracts from the number and bytes of calls in flight. Calls of closed connections continue, and
        are counted as well."""
        self.calls += calls
        self.calls_bytes += size_bytes

    def may_begin(self, under_way: int) -> bool:
        """Returns whether a connection with this many calls in flight may start another call."""
        return self.calls < CALLS_MAX + (LEFT_BEHIND_MAX if under_way == 0 else 0)

    def relieve(self, holders: Iterable[Holder]) -> None:
        """If the connections hold too many bytes in total, closes the one that holds the most."""
        everybody = list(holders)
        held = self.calls_bytes + sum(one.held_bytes for one in everybody)
        limit = self._limits.buffered_bytes_max
        if held > limit:
            largest = max(everybody, key=lambda one: one.held_bytes + one.called_bytes)
            largest.refuse(
                f"all connections hold more than {limit} bytes in total, and this one most: send less at a time"
            )
