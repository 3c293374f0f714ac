"""Connection table: limits connections, in total and per peer; evicts unidentified or idle ones to admit new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ..addresses import peer_of
from .trust.identity import Identity, Peer

STRANGER_SECONDS_MIN = 1.0
"""Minimum time that an unidentified connection has to identify itself, however many new connections arrive."""


@dataclass(eq=False, slots=True)
class ClientConnection:
    """One connection. `cut` closes it; `is_idle` returns whether no request is in progress; `identity` is from the
    certificate."""

    peer: str
    came_at: float
    cut: Callable[[str], None]
    is_idle: Callable[[], bool] = field(default=lambda: True)
    is_stranger: bool = True
    identity: Identity | None = None

    @property
    def who(self) -> Peer:
        return Peer.of(self.peer, self.identity)


def part_of(whole: int, peer_share: float, least: int = 1) -> int:
    """Returns one address's share of a total limit."""
    return max(least, int(whole * peer_share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Limits of a port: on all connections, on unidentified ones, and on those that speak gRPC.

    `own_idle_go`: whether a new connection from an address that has reached its limit is admitted by closing the
    address's oldest idle one. `busy_go`: whether, if no connection is idle, a busy one of the address with the most
    connections is closed to admit one from another address.
    """

    connections_max: int
    connections_a_peer_max: int
    strangers_max: int
    strangers_a_peer_max: int
    tools_max: int = 0
    tools_a_peer_max: int = 0
    own_idle_go: bool = False
    busy_go: bool = False

    @classmethod
    def shared(
        cls, peer_share: float, *, connections_max: int, strangers_max: int, tools_max: int = 0, **ends: bool
    ) -> Places:
        """Makes the limits; each address may use at most the fraction `peer_share` of each limit. `ends`: `own_idle_go`
        and `busy_go`, the flags that specify which connections are closed to admit new ones."""
        return cls(
            connections_max=connections_max,
            connections_a_peer_max=part_of(connections_max, peer_share),
            strangers_max=strangers_max,
            strangers_a_peer_max=part_of(strangers_max, peer_share),
            tools_max=tools_max,
            tools_a_peer_max=part_of(tools_max, peer_share),
            **ends,
        )


def address_of(transport: asyncio.BaseTransport) -> str:
    """Returns the peer address under which a connection is counted; "" if unknown."""
    name = transport.get_extra_info("peername")
    return peer_of(str(name[0])) if name else ""


class ConnectionTable:
    """Table of all connections of a port. Belongs to one event loop."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._all: dict[str, dict[ClientConnection, None]] = {}
        self._strangers: dict[ClientConnection, None] = {}
        self._tools: dict[ClientConnection, None] = {}
        self.count = 0
        self.held_max = self.refused = self.made_way = self.tools_refused = 0

    @property
    def connections_max(self) -> int:
        return self._places.connections_max

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def tools(self) -> int:
        return len(self._tools)

    def enter(self, peer: str, cut: Callable[[str], None]) -> ClientConnection | str:
        """Admits a new connection, or returns why it is refused."""
        if why := self._full(peer):
            self.refused += 1
            return why
        visitor = ClientConnection(peer, asyncio.get_running_loop().time(), cut)
        self._make_strangers_way(visitor)
        self._all.setdefault(peer, {})[visitor] = None
        self._strangers[visitor] = None
        self.count += 1
        self.held_max = max(self.held_max, self.count)
        return visitor

    def is_known(self, visitor: ClientConnection, is_idle: Callable[[], bool]) -> None:
        """Marks a connection as identified."""
        visitor.is_stranger, visitor.is_idle = False, is_idle
        self._strangers.pop(visitor, None)

    def is_tool(self, visitor: ClientConnection) -> bool:
        """Marks a connection as speaking gRPC; returns False if there are too many of those."""
        mine = sum(one.peer == visitor.peer for one in self._tools)
        if len(self._tools) >= self._places.tools_max or mine >= self._places.tools_a_peer_max:
            self.tools_refused += 1
            return False
        self.is_known(visitor, lambda: False)
        self._tools[visitor] = None
        return True

    def leave(self, visitor: ClientConnection) -> None:
        """Removes a connection that has ended."""
        mine = self._all.get(visitor.peer, {})
        if visitor not in mine:
            return
        del mine[visitor]
        if not mine:
            del self._all[visitor.peer]
        self._strangers.pop(visitor, None)
        self._tools.pop(visitor, None)
        self.count -= 1

    # ------------------------------------------------------------------------------------------

    def _full(self, peer: str) -> str:
        mine = len(self._all.get(peer, ()))
        if mine >= self._places.connections_a_peer_max and not self._own_makes_way(peer):
            return f"{mine} connections of this address are open, and no more may be"
        if self.count >= self._places.connections_max and not self._make_way(mine):
            return f"{self.count} connections are open at this port, and no more may be"
        return ""

    def _own_makes_way(self, peer: str) -> bool:
        return self._places.own_idle_go and self._ends_idle(
            self._all[peer], "it was replaced by a newer connection from its address"
        )

    def _make_way(self, mine: int) -> bool:
        """Evicts a connection of the peer with the most connections, if that peer has more connections than the new
        connection's peer will have. Returns whether one was evicted."""
        largest = max(self._all.values(), key=len)
        if len(largest) <= mine + 1:
            return False
        why = "its place was needed for another connection"
        if self._ends_idle(largest, why):
            return True
        if self._places.busy_go:
            self._end(next(iter(largest)), why)
        return self._places.busy_go

    def _ends_idle(self, connections: dict[ClientConnection, None], why: str) -> bool:
        idle = next((visitor for visitor in connections if visitor.is_idle()), None)
        if idle is not None:
            self._end(idle, why)
        return idle is not None

    def _make_strangers_way(self, newcomer: ClientConnection) -> None:
        """If the limit on unidentified connections has been reached, in total or for the newcomer's peer, evicts the
        oldest of them, provided that it has had enough time to identify itself."""
        of_peer = [one for one in self._strangers if one.peer == newcomer.peer]
        if len(of_peer) >= self._places.strangers_a_peer_max:
            oldest = of_peer[0]
        elif len(self._strangers) >= self._places.strangers_max:
            oldest = next(iter(self._strangers))
        else:
            return
        if newcomer.came_at - oldest.came_at >= STRANGER_SECONDS_MIN:
            self._end(oldest, "it did not identify itself while others waited")

    def _end(self, visitor: ClientConnection, why: str) -> None:
        self.made_way += 1
        self.leave(visitor)
        visitor.cut(why)
