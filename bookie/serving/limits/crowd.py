"""Who is connected. Strangers make way for newcomers; where all places are taken, the largest crowd does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ...limits_config import Limits
from ...wire.trust.identity import Identity, Peer

log = logging.getLogger(__name__)

STRANGER_SECONDS_MIN = 1.0
"""So long a stranger has to say what it is, however many come behind it."""


@dataclass(eq=False, slots=True)
class Visitor:
    """One connection. `cut` ends it; `is_idle` tells whether it waits for nothing. `identity`: by its certificate."""

    peer: str
    came_at: float
    cut: Callable[[str], None]
    is_idle: Callable[[], bool] = field(default=lambda: True)
    is_stranger: bool = True
    identity: Identity | None = None

    @property
    def who(self) -> Peer:
        if self.identity is None:
            return Peer(self.peer)
        return Peer(self.peer, self.identity, self.identity.rights)


class Crowd:
    """All connections of a bookie. Belongs to one event loop."""

    def __init__(self, limits: Limits, connections_max: int) -> None:
        self._limits = limits
        self._connections_max = connections_max
        self._all: dict[str, dict[Visitor, None]] = {}
        self._strangers: dict[Visitor, None] = {}
        self._tools: dict[Visitor, None] = {}
        self.count = 0
        self.held_max = self.refused = self.made_way = 0

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def enter(self, peer: str, cut: Callable[[str], None]) -> Visitor | str:
        """A newcomer, or why it cannot be let in."""
        if why := self._full(peer):
            self.refused += 1
            return why
        visitor = Visitor(peer, asyncio.get_running_loop().time(), cut)
        self._make_strangers_way(visitor)
        self._all.setdefault(peer, {})[visitor] = None
        self._strangers[visitor] = None
        self.count += 1
        self.held_max = max(self.held_max, self.count)
        return visitor

    def is_known(self, visitor: Visitor, is_idle: Callable[[], bool]) -> None:
        """It has said what it is."""
        visitor.is_stranger, visitor.is_idle = False, is_idle
        self._strangers.pop(visitor, None)

    def is_tool(self, visitor: Visitor) -> bool:
        """It speaks gRPC; whether there is room for one more that does."""
        mine = sum(one.peer == visitor.peer for one in self._tools)
        if len(self._tools) >= self._limits.tools_max or mine >= self._limits.tools_a_peer_max:
            self.refused += 1
            return False
        self.is_known(visitor, lambda: False)
        self._tools[visitor] = None
        return True

    def leave(self, visitor: Visitor) -> None:
        """Its connection has ended."""
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
        if mine >= self._limits.connections_a_peer_max:
            return f"{mine} connections of this address are open, and no more may be"
        if self.count >= self._connections_max and not self._make_way(mine):
            return f"{self.count} connections are open at this bookie, and no more may be"
        return ""

    def _make_way(self, mine: int) -> bool:
        """Ends one that waits for nothing of the peer that has the most, if that has more than the newcomer will."""
        largest = max(self._all.values(), key=len)
        if len(largest) <= mine + 1:
            return False
        idle = next((visitor for visitor in largest if visitor.is_idle()), None)
        if idle is not None:
            self._end(idle, "its place was needed for others")
        return idle is not None

    def _make_strangers_way(self, newcomer: Visitor) -> None:
        """Strangers past their bound go, the oldest first, if they have had the time to say what they are."""
        of_peer = [one for one in self._strangers if one.peer == newcomer.peer]
        if len(of_peer) >= self._limits.strangers_a_peer_max:
            oldest = of_peer[0]
        elif len(self._strangers) >= self._limits.strangers_max:
            oldest = next(iter(self._strangers))
        else:
            return
        if newcomer.came_at - oldest.came_at >= STRANGER_SECONDS_MIN:
            self._end(oldest, "it did not say what it is while others came")

    def _end(self, visitor: Visitor, why: str) -> None:
        self.made_way += 1
        self.leave(visitor)
        visitor.cut(why)
