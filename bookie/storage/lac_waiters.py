"""Long polls: requests that wait for a later last-add-confirmed of their ledger."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from ..wire.messages import LacStatement


class LacWaiters:
    """Long polls by ledger. Belongs to the event loop."""

    def __init__(self, lac_of: Callable[[int], LacStatement | None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lac_of = lac_of
        self._lines: dict[int, _Line] = {}
        self._ended = False

    @property
    def ledgers(self) -> int:
        """Number of ledgers with long polls."""
        return len(self._lines)

    async def wait(
        self, ledger_id: int, beyond: int, seconds: float, hurried: asyncio.Future[None] | None = None
    ) -> None:
        """Waits until the last-add-confirmed exceeds `beyond`, the time is up, or long polls end.

        Ends early when `hurried` is done. In any case, `hurried` is done when this returns.
        """
        lac = self._lac_of(ledger_id)
        if self._ended or seconds <= 0 or (lac is not None and lac.last_entry > beyond):
            return
        waiter: asyncio.Future[None] = hurried or self._loop.create_future()
        line = self._lines.setdefault(ledger_id, _Line())
        line.add(beyond, waiter)
        timer = self._loop.call_later(seconds, _wake, (waiter,))
        try:
            await waiter
        finally:
            timer.cancel()
            line.remove(beyond, waiter)
            if not line.beyond and self._lines.get(ledger_id) is line:
                del self._lines[ledger_id]

    def wake(self, ledger_id: int) -> None:
        """Wakes the long polls that can be answered with the ledger's current last-add-confirmed."""
        line = self._lines.get(ledger_id)
        if line is not None and (lac := self._lac_of(ledger_id)) is not None:
            line.wake(lac.last_entry)

    def end(self) -> None:
        """Ends all present and future long polls immediately."""
        self._ended = True
        for line in self._lines.values():
            line.wake_all()


class _Line:
    """Long polls of one ledger, ordered by the entry that each client already has, so that a later entry wakes only the
    polls that it answers."""

    def __init__(self) -> None:
        self.beyond: list[int] = []
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}

    def add(self, beyond: int, waiter: asyncio.Future[None]) -> None:
        if beyond not in self._waiting:
            insort(self.beyond, beyond)
            self._waiting[beyond] = set()
        self._waiting[beyond].add(waiter)

    def remove(self, beyond: int, waiter: asyncio.Future[None]) -> None:
        waiting = self._waiting[beyond]
        waiting.discard(waiter)
        if not waiting:
            del self._waiting[beyond]
            del self.beyond[bisect_left(self.beyond, beyond)]

    def wake(self, last_entry: int) -> None:
        for beyond in self.beyond[: bisect_left(self.beyond, last_entry)]:
            _wake(self._waiting[beyond])

    def wake_all(self) -> None:
        for waiting in self._waiting.values():
            _wake(waiting)


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(None)
