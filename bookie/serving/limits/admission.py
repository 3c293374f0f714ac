"""Admission control: all limits of one bookie, and the operator's report of their use."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ...limits_config import MESSAGE_ROOM_BYTES_MIN, Limits
from ...wire.connection_table import ClientConnection, ConnectionTable, Places, part_of
from .descriptors import connections_that_fit
from .shared_quota import Account, Budget


class Rate:
    """Token bucket: earns `a_second` each second, and keeps at most one second's worth. `now` is the loop's clock."""

    def __init__(self, a_second: float, now: Callable[[], float]) -> None:
        self._a_second = a_second
        self._now = now
        self._left = a_second
        self._earned_at = now()

    def spend(self, amount: float) -> float:
        """Spends the amount even if that overdraws the balance. Returns how many seconds to pause until the balance is
        no longer negative."""
        now = self._now()
        earned = (now - self._earned_at) * self._a_second
        self._left = min(self._a_second, self._left + earned) - amount
        self._earned_at = now
        return max(0.0, -self._left / self._a_second)


# Stalled peers, which hold memory and make no progress, are disconnected: immediately if other peers are waiting for
# that memory, otherwise after a time limit.
#
# A peer makes progress if it sends more of an unfinished message or takes bytes sent to it.

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Check interval while a quota is in use."""

SHORT_LOOK_SECONDS = 0.05
"""Check interval while a request waits."""

SLOW_SECONDS_MAX = 0.2
"""A peer that has been slow for this long is disconnected if other peers are waiting for the memory it holds."""

PAUSE_SECONDS = 1.0
"""A check that is this late means that the bookie's own process was paused. Peers do not count as stalled in that case,
because their bytes were not being read."""

PACE_BYTES_A_SECOND_MIN = 64 * 1024
"""A peer that makes less progress than this counts as slow."""


class StalledPeers:
    """Checks the accounts of the given quotas for stalled peers. Call `begin` whenever an account begins to hold
    something."""

    def __init__(self, budgets: Sequence[Budget], still_seconds_max: float) -> None:
        """`still_seconds_max`: a peer that makes no progress for this long is disconnected even if no request is
        waiting."""
        self._still_seconds_max = still_seconds_max
        self.cuts = 0
        self._budgets = budgets
        for budget in budgets:
            budget.on_short = self._hurry
        self._look: asyncio.TimerHandle | None = None
        self._looked_at = 0.0

    def begin(self) -> None:
        if self._look is None:
            self._looked_at = asyncio.get_running_loop().time()
            self._look_later(LOOK_SECONDS)

    def end(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    # ------------------------------------------------------------------------------------------

    def _hurry(self) -> None:
        soon = asyncio.get_running_loop().time() + SHORT_LOOK_SECONDS
        if self._look is not None and self._look.when() > soon:
            self._look.cancel()
            self._look_later(SHORT_LOOK_SECONDS)

    def _look_later(self, seconds: float) -> None:
        self._look = asyncio.get_running_loop().call_later(seconds, self._look_around)

    def _look_around(self) -> None:
        assert self._look is not None
        now, due = asyncio.get_running_loop().time(), self._look.when()
        self._look = None
        seconds, self._looked_at = now - self._looked_at, now
        was_stopped = now - due > PAUSE_SECONDS
        for budget in self._budgets:
            for account in list(budget.accounts):
                _note_pace(account, 0.0 if was_stopped else seconds)
                is_in_the_way = account.slow_seconds >= SLOW_SECONDS_MAX and budget.is_short_for(account.peer)
                if is_in_the_way or account.still_seconds >= self._still_seconds_max:
                    self._cut(account)
        if any(budget.accounts for budget in self._budgets):
            is_short = any(budget.somebody_waits for budget in self._budgets)
            self._look_later(SHORT_LOOK_SECONDS if is_short else LOOK_SECONDS)

    def _cut(self, account: Account) -> None:
        self.cuts += 1
        log.warning(
            "%s holds %d bytes and makes no progress: closing its connection",
            account.peer or "a client",
            account.held,
            extra={"peer": account.peer},
        )
        account.cut("the client made no progress while others waited, or for too long")


def _note_pace(account: Account, seconds: float) -> None:
    """Updates how long the peer has been slow, and how long it has made no progress."""
    moved, before = account.moved(), account.seen
    account.seen = moved
    if moved is None or before is None or not seconds:
        account.slow_seconds = account.still_seconds = 0.0
    else:
        is_slow = moved - before < PACE_BYTES_A_SECOND_MIN * seconds
        account.slow_seconds = account.slow_seconds + seconds if is_slow else 0.0
        account.still_seconds = account.still_seconds + seconds if moved == before else 0.0


PENALTY_SECONDS = 0.1
PENALTY_SECONDS_MAX = 2.0
"""Maximum delay of a peer's next handshake. It is shorter than the time that clients wait for a server hello, so that
other clients at the same address are slowed down but not locked out."""

FORGIVEN_SECONDS = 60.0
"""A peer's count of invalid proofs is reset this long after the last one."""

SUSPECTS_MAX = 1024
"""Limit on remembered peers; the one whose last invalid proof is oldest is forgotten first."""


class AuthBackoff:
    """Counts invalid proofs per peer. `now` is the loop's clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._false: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.proofs_refused = 0

    def was_false(self, peer: str) -> None:
        """Counts an invalid proof from this peer."""
        self.proofs_refused += 1
        count = self._count(peer)
        self._false[peer] = (count + 1, self._now())
        self._false.move_to_end(peer)
        if len(self._false) > SUSPECTS_MAX:
            self._false.popitem(last=False)

    def penalty_seconds(self, peer: str) -> float:
        """Returns how long to delay the peer's next handshake."""
        count = self._count(peer)
        return min(PENALTY_SECONDS_MAX, PENALTY_SECONDS * 2.0 ** min(count - 1, 16)) if count else 0.0

    def _count(self, peer: str) -> int:
        count, last = self._false.get(peer, (0, 0.0))
        return count if self._now() - last < FORGIVEN_SECONDS else 0


class LongPolls:
    """Long polls by peer, oldest first. Belongs to one event loop."""

    def __init__(self, in_all: int, a_peer: int) -> None:
        self._in_all, self._a_peer = in_all, a_peer
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        self.held = self.held_max = self.hurried = 0

    def begin(self, peer: str) -> asyncio.Future[None]:
        """Registers a long poll until `end` is called. When the returned future is done, the caller must answer the
        poll to make room for others."""
        if len(self._waiting.get(peer, ())) >= self._a_peer:
            self._hurry(peer)
        elif self.held >= self._in_all:
            self._hurry(max(self._waiting, key=lambda one: len(self._waiting[one])))
        hurried: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, {})[hurried] = None
        self.held += 1
        self.held_max = max(self.held_max, self.held)
        return hurried

    def end(self, peer: str, hurried: asyncio.Future[None]) -> None:
        """Removes a long poll that was answered or cancelled."""
        mine = self._waiting.get(peer, {})
        if hurried not in mine:
            return
        del mine[hurried]
        self.held -= 1
        if not mine:
            del self._waiting[peer]

    def _hurry(self, peer: str) -> None:
        first = next(iter(self._waiting[peer]))
        self.end(peer, first)
        self.hurried += 1
        if not first.done():
            first.set_result(None)


PROOFS_A_TURN = 8
"""Limit on proofs checked per loop iteration: checking a signature takes 0.1 ms, and an append waits for at most this
many checks."""


class LoopQuota:
    """A quota of operations per loop iteration; waiting callers are served in order of arrival. Belongs to one event
    loop."""

    def __init__(self, a_turn: int = PROOFS_A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._line = asyncio.Lock()

    async def take(self) -> None:
        """Waits until the caller may perform one operation."""
        async with self._line:
            if not self._left:
                await asyncio.sleep(0)
                self._left = self._a_turn
            self._left -= 1


STRANGERS_MAX = 512
"""Limit on connections that have not identified themselves. The oldest are closed to make room for new ones, so a
higher limit would serve no purpose."""

TOOLS_MAX = 64
"""Limit on gRPC connections: operators' commands, which connect briefly."""

TOOLS_BYTES_A_SECOND = 16 * 1024
"""Rate limit on gRPC bytes from all tools in total: each call takes a millisecond that appends could have used."""

STILL_SECONDS_MAX = 30.0
"""Time limit: a client with unfinished messages or untaken pages is disconnected if it makes no progress for this long.
"""


class Guard:
    """All limits of one bookie. `descriptors`: number of file descriptors that the process may open; `now`: the loop's
    clock.

    Raises BookieError if the process may open too few descriptors.
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
        """Returns, for each limit, the current amount, the highest amount, and how often the limit was exceeded."""
        table, limits = self.table, self.limits
        report = {
            "connections": _limit_report(table.count, table.held_max, table.connections_max, table.refused),
            "strangers": {"now": table.strangers, "limit": STRANGERS_MAX, "past": table.made_way},
            "tools": {"now": table.tools, "limit": TOOLS_MAX, "past": table.tools_refused},
            "received_bytes": _of(self.received),
            "untaken_bytes": _of(self.untaken),
            "calls": _of(self.calls),
            "polls": _limit_report(
                self.polls.held, self.polls.held_max, limits.polls_max, self.polls.hurried
            ),
            "proofs_refused": self.suspects.proofs_refused,
            "standstill_cuts": self.standstill.cuts,
        }
        return {"limits": report}


def _bytes_of(whole: int, peer_share: float) -> Budget:
    return Budget(whole, part_of(whole, peer_share, MESSAGE_ROOM_BYTES_MIN))


def _of(budget: Budget) -> dict[str, int]:
    return _limit_report(budget.held, budget.held_max, budget.in_all, budget.waits)


def _limit_report(now: int, most: int, limit: int, past: int) -> dict[str, int]:
    return {"now": now, "most": most, "limit": limit, "past": past}
