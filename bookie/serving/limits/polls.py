"""Calls that wait for news. Past the bound one of those who wait is answered at once, with what there is."""

from __future__ import annotations

import asyncio


class Polls:
    """By peer, the one that waits the longest first. Belongs to one event loop."""

    def __init__(self, in_all: int, a_peer: int) -> None:
        self._in_all, self._a_peer = in_all, a_peer
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        self.held = self.held_max = self.hurried = 0

    def begin(self, peer: str) -> asyncio.Future[None]:
        """One more waits: until it `ends`, or what is returned is done and it is to be answered."""
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
        """It is answered, or nobody waits for it any more."""
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
