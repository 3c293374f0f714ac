"""Limits long polls. Past the limit, the oldest one is answered at once, with the current state."""

from __future__ import annotations

import asyncio


class LongPolls:
    """Long polls by peer, oldest first. Belongs to one event loop."""

    def __init__(self, in_all: int, a_peer: int) -> None:
        self._in_all, self._a_peer = in_all, a_peer
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        self.held = self.held_max = self.hurried = 0

    def begin(self, peer: str) -> asyncio.Future[None]:
        """Registers a long poll until `end`. Once the returned future is done, the caller must answer, to make room."""
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
