"""Requests that wait for a later last-add-confirmed of their ledger (long polls)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..wire.messages import LacStatement


class LacWaiters:
    """Who waits for news of which ledger. Belongs to the event loop."""

    def __init__(self, lac_of: Callable[[int], LacStatement | None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lac_of = lac_of
        self._waiters: dict[int, set[asyncio.Future[None]]] = {}
        self._ended = False

    @property
    def ledgers(self) -> int:
        """How many ledgers are waited for."""
        return len(self._waiters)

    async def wait(self, ledger_id: int, beyond: int, seconds: float) -> None:
        """Returns when a last-add-confirmed past `beyond` is known, the time is up, or nobody may wait."""
        deadline = self._loop.time() + seconds
        while not self._ended and (left := deadline - self._loop.time()) > 0:
            lac = self._lac_of(ledger_id)
            if lac is not None and lac.last_entry > beyond:
                return
            await self._next(ledger_id, left)

    def wake(self, ledger_id: int) -> None:
        """There is news of this ledger."""
        for waiter in self._waiters.pop(ledger_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        """Answers everybody with what there is, now and from now on."""
        self._ended = True
        for ledger_id in list(self._waiters):
            self.wake(ledger_id)

    async def _next(self, ledger_id: int, seconds: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters = self._waiters.setdefault(ledger_id, set())
        waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            waiters.discard(waiter)
            if not waiters and self._waiters.get(ledger_id) is waiters:
                del self._waiters[ledger_id]
