"""Admission control: all limits of one bookie, and the operator's report of their use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...limits_config import MESSAGE_ROOM_BYTES_MIN, Limits
from ...wire.connection_table import ClientConnection, ConnectionTable, Places, part_of
from .auth_backoff import AuthBackoff
from .descriptors import connections_that_fit
from .long_polls import LongPolls
from .loop_quota import LoopQuota
from .rate import Rate
from .shared_quota import Account, Budget
from .stalled_peers import StalledPeers

STRANGERS_MAX = 512
"""Limit on connections that have not identified themselves. The oldest make room for new ones, so a higher limit would
help no one."""

TOOLS_MAX = 64
"""Limit on gRPC connections: operators' commands, which connect briefly."""

TOOLS_BYTES_A_SECOND = 16 * 1024
"""Rate limit on gRPC bytes from all tools together: each call takes a millisecond that appends would have used."""

STILL_SECONDS_MAX = 30.0
"""Time limit: a client with unfinished messages or untaken pages is cut if it moves nothing for this long."""


class Guard:
    """All limits. `descriptors`: how many descriptors the process may open; `now`: the loop's clock.

    Raises BookieError if there are too few descriptors.
    """

    def __init__(self, limits: Limits, descriptors: int, now: Callable[[], float]) -> None:
        self.limits = limits
        share = limits.peer_share
        fit = connections_that_fit(descriptors, TOOLS_MAX)
        self.table = ConnectionTable(
            Places.shared(
                share,
                connections_max=min(limits.connections_max, fit),
                strangers_max=STRANGERS_MAX,
                tools_max=TOOLS_MAX,
            )
        )
        self.received = _bytes_of(limits.received_bytes_max, share)
        self.untaken = _bytes_of(limits.untaken_bytes_max, share)
        self.calls = Budget(limits.calls_max, part_of(limits.calls_max, share))
        self.polls = LongPolls(limits.polls_max, part_of(limits.polls_max, share))
        self.suspects = AuthBackoff(now)
        self.proofs = LoopQuota()
        self.tools = Rate(TOOLS_BYTES_A_SECOND, now)
        self.standstill = StalledPeers((self.received, self.untaken), STILL_SECONDS_MAX)

    def account(self, budget: Budget, visitor: ClientConnection, moved: Callable[[], int | None]) -> Account:
        """Opens the connection's account with one of the quotas."""
        return Account(budget, visitor.peer, moved, visitor.cut, self.standstill.begin)

    def close(self) -> None:
        self.standstill.end()

    def report(self) -> dict[str, Any]:
        """For each limit: the amount held now, the highest amount held, and how often the limit was exceeded."""
        table, limits = self.table, self.limits
        told = {
            "connections": _told(table.count, table.held_max, table.connections_max, table.refused),
            "strangers": {"now": table.strangers, "limit": STRANGERS_MAX, "past": table.made_way},
            "tools": {"now": table.tools, "limit": TOOLS_MAX, "past": table.tools_refused},
            "received_bytes": _of(self.received),
            "untaken_bytes": _of(self.untaken),
            "calls": _of(self.calls),
            "polls": _told(self.polls.held, self.polls.held_max, limits.polls_max, self.polls.hurried),
            "proofs_refused": self.suspects.proofs_refused,
            "standstill_cuts": self.standstill.cuts,
        }
        return {"limits": told}


def _bytes_of(whole: int, peer_share: float) -> Budget:
    return Budget(whole, part_of(whole, peer_share, MESSAGE_ROOM_BYTES_MIN))


def _of(budget: Budget) -> dict[str, int]:
    return _told(budget.held, budget.held_max, budget.in_all, budget.waits)


def _told(now: int, most: int, limit: int, past: int) -> dict[str, int]:
    return {"now": now, "most": most, "limit": limit, "past": past}
