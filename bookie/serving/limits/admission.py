"""Admission control: all limits of one bookie, and the operator's report of their use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...limits_config import Limits
from ...wire.connection_table import ClientConnection, ConnectionTable, Places
from .auth_backoff import AuthBackoff
from .descriptors import connections_that_fit
from .long_polls import LongPolls
from .loop_quota import LoopQuota
from .rate import Rate
from .shared_quota import Account, Budget
from .stalled_peers import StalledPeers


class Guard:
    """All limits. `descriptors`: how many the process may have open; `now`: the loop's clock.

    Raises BookieError for too few descriptors.
    """

    def __init__(self, limits: Limits, descriptors: int, now: Callable[[], float]) -> None:
        self.limits = limits
        fit = connections_that_fit(descriptors, limits.tools_max)
        self.table = ConnectionTable(
            Places.of(
                limits,
                connections_max=min(limits.connections_max, fit),
                tools_max=limits.tools_max,
                tools_a_peer_max=limits.tools_a_peer_max,
            )
        )
        self.received = Budget(limits.received_bytes_max, limits.received_bytes_a_peer_max)
        self.untaken = Budget(limits.untaken_bytes_max, limits.untaken_bytes_a_peer_max)
        self.calls = Budget(limits.calls_max, limits.calls_a_peer_max)
        self.polls = LongPolls(limits.polls_max, limits.polls_a_peer_max)
        self.suspects = AuthBackoff(now)
        self.proofs = LoopQuota()
        self.tools = Rate(limits.tools_bytes_a_second, now)
        self.standstill = StalledPeers((self.received, self.untaken), limits.still_seconds_max)

    def account(self, budget: Budget, visitor: ClientConnection, moved: Callable[[], int | None]) -> Account:
        """Opens the connection's account with one of the quotas."""
        return Account(budget, visitor.peer, moved, visitor.cut, self.standstill.begin)

    def close(self) -> None:
        self.standstill.end()

    def report(self) -> dict[str, Any]:
        """Each limit: what is held now, the most that was held, and how often it was exceeded."""
        table, limits = self.table, self.limits
        told = {
            "connections": _told(table.count, table.held_max, table.connections_max, table.refused),
            "strangers": {"now": table.strangers, "limit": limits.strangers_max, "past": table.made_way},
            "tools": {"now": table.tools, "limit": limits.tools_max, "past": table.tools_refused},
            "received_bytes": _of(self.received),
            "untaken_bytes": _of(self.untaken),
            "calls": _of(self.calls),
            "polls": _told(self.polls.held, self.polls.held_max, limits.polls_max, self.polls.hurried),
            "proofs_refused": self.suspects.proofs_refused,
            "standstill_cuts": self.standstill.cuts,
        }
        return {"limits": told}


def _of(budget: Budget) -> dict[str, int]:
    return _told(budget.held, budget.held_max, budget.in_all, budget.waits)


def _told(now: int, most: int, limit: int, past: int) -> dict[str, int]:
    return {"now": now, "most": most, "limit": limit, "past": past}
