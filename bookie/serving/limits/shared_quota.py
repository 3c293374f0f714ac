"""A quota of bytes or calls, shared by peers. Requests that exceed it wait; the peer that holds the least is served
next.

The last quarter is reserved for peers that hold little, so that a few large ones cannot starve the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

LITTLE_SHARE = 48
"""A peer holds little if it holds less than the quota divided by this number. With a quota of 64 MiB, such a share has
room for a writer's message with a full frame (1 MiB plus overhead). If the share were smaller, peers that send
incomplete messages could make every writer wait."""


class _Wish(NamedTuple):
    amount: int
    granted: asyncio.Future[None]


class Budget:
    """A quota of `in_all` for all peers combined, and of `a_peer` for each address. Belongs to one event loop.

    `held_max`: the highest amount held so far; `waits`: how often a request had to wait or was refused. Calls
    `on_short` when a request begins to wait.
    """

    def __init__(self, in_all: int, a_peer: int, on_short: Callable[[], None] = lambda: None) -> None:
        self.in_all, self.a_peer = in_all, min(a_peer, in_all)
        self.on_short = on_short
        self._for_many = max(self.a_peer, in_all - in_all // 4)
        self.held = self.held_max = self.waits = 0
        self.accounts: dict[Account, None] = {}
        """Accounts that hold something."""
        self._by_peer: dict[str, int] = {}
        self._lines: dict[str, deque[_Wish]] = {}

    @property
    def somebody_waits(self) -> bool:
        return bool(self._lines)

    def is_short_for(self, peer: str) -> bool:
        """Returns whether a request is waiting for an amount that this peer holds: either another peer's request,
        waiting for room in the total, or one of this peer's own, waiting for room in its share."""
        return peer in self._lines or any(
            self._fits_peer(other, line[0].amount) for other, line in self._lines.items()
        )

    def take_now(self, peer: str, amount: int) -> bool:
        """Takes the amount if it is available and no request of this peer is waiting; returns whether it was taken."""
        if peer in self._lines or not self._fits(peer, amount):
            self.waits += 1
            return False
        self.force(peer, amount)
        return True

    async def take(self, peer: str, amount: int) -> None:
        """Waits until the amount is available, then takes it; the amount must be at most `a_peer`."""
        if peer not in self._lines and self._fits(peer, amount):
            self.force(peer, amount)
            return
        wish = _Wish(amount, asyncio.get_running_loop().create_future())
        self._lines.setdefault(peer, deque()).append(wish)
        self.on_short()
        try:
            await wish.granted
        except asyncio.CancelledError:
            if wish.granted.done() and not wish.granted.cancelled():
                self.give(peer, amount)
            else:
                self._leave(peer, wish)
            raise

    def force(self, peer: str, amount: int) -> None:
        """Takes the amount even if it exceeds the quota, because the data is already in memory."""
        self.held += amount
        self.held_max = max(self.held_max, self.held)
        self._by_peer[peer] = self._by_peer.get(peer, 0) + amount

    def give(self, peer: str, amount: int) -> None:
        """Frees the amount."""
        self.held -= amount
        self._by_peer[peer] -= amount
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        self._serve_lines()

    # ------------------------------------------------------------------------------------------

    def _fits_peer(self, peer: str, amount: int) -> bool:
        return self._by_peer.get(peer, 0) + amount <= self.a_peer

    def _fits(self, peer: str, amount: int) -> bool:
        is_little = self._by_peer.get(peer, 0) + amount <= self.in_all // LITTLE_SHARE
        there_is = self.in_all if is_little else self._for_many
        return self.held + amount <= there_is and self._fits_peer(peer, amount)

    def _leave(self, peer: str, wish: _Wish) -> None:
        line = self._lines[peer]
        line.remove(wish)
        if not line:
            del self._lines[peer]
        self._serve_lines()  # later requests in the queue may be smaller

    def _serve_lines(self) -> None:
        """Grants waiting requests as long as any of them fits: one per peer in turn, beginning with the peer that holds
        the least."""
        found = bool(self._lines)
        while found:
            found = False
            for peer in sorted(self._lines, key=lambda one: self._by_peer.get(one, 0)):
                found |= self._serve_first(peer)

    def _serve_first(self, peer: str) -> bool:
        line = self._lines[peer]
        if not self._fits(peer, line[0].amount):
            return False
        wish = line.popleft()
        if not line:
            del self._lines[peer]
        if not wish.granted.done():
            self.force(peer, wish.amount)
            wish.granted.set_result(None)
        return True


class Account:
    """One connection's share of a quota. `close` frees all of it; afterwards nothing can be taken.

    `moved` returns how many bytes the peer has sent or taken, or None while it has nothing to send or take. `cut` ends
    the connection. `on_held` is called when the account begins to hold something.
    """

    def __init__(
        self,
        budget: Budget,
        peer: str,
        moved: Callable[[], int | None],
        cut: Callable[[str], None],
        on_held: Callable[[], None],
    ) -> None:
        self.budget, self.peer = budget, peer
        self.moved, self.cut = moved, cut
        self._on_held = on_held
        self.held = 0
        self.seen: int | None = None
        """The last result of `moved`."""
        self.slow_seconds = self.still_seconds = 0.0
        self._is_closed = False

    def take_now(self, amount: int) -> bool:
        if not self.budget.take_now(self.peer, amount):
            return False
        self._note(amount)
        return True

    async def take(self, amount: int) -> None:
        await self.budget.take(self.peer, amount)
        self._note(amount)

    def change(self, amount: int) -> None:
        """Corrects the amount held, up or down."""
        if self._is_closed:
            return
        if amount > 0:
            self.budget.force(self.peer, amount)
        elif amount < 0:
            self.budget.give(self.peer, -amount)
        self.held += amount
        if not self.held:
            self.budget.accounts.pop(self, None)

    def close(self) -> None:
        self.change(-self.held)
        self._is_closed = True

    def _note(self, amount: int) -> None:
        if self._is_closed:
            self.budget.give(self.peer, amount)
            return
        if not self.held:
            self.seen, self.slow_seconds, self.still_seconds = None, 0.0, 0.0
            self.budget.accounts[self] = None
            self._on_held()
        self.held += amount
