"""Flow control of a scan: a window of bytes sent and not yet taken by the client."""

from __future__ import annotations

import asyncio

from ...wire.messages import ReadReply, ScanRequest

UNTAKEN_SECONDS_MAX = 60.0
"""A client that takes nothing for so long has its scan ended, and may start another."""

NOT_TAKEN = f"nothing of it was taken for {UNTAKEN_SECONDS_MAX:.0f} s"


class Scan:
    """State of one scan: `next_entry` is read next, unless it `has_ended`. Belongs to the event loop."""

    def __init__(self, request: ScanRequest) -> None:
        self.next_entry = request.first_entry
        self.has_ended = False
        self._ends = request.ends
        self._page_bytes, self._window_bytes = request.page_bytes, request.window_bytes
        self._sent = self._taken = 0
        self._changed = asyncio.Event()

    async def has_room(self) -> bool:
        """Returns when a page may be sent; False when the client has taken nothing for too long."""
        while self._untaken_bytes and self._untaken_bytes + self._page_bytes > self._window_bytes:
            self._changed.clear()
            try:
                async with asyncio.timeout(UNTAKEN_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def was_read(self, reply: ReadReply) -> None:
        """Moves on past a page, and keeps none of it: a scan that waits for its client holds no entries."""
        self.has_ended = self._ends(reply)
        self.next_entry = reply.covered_through + 1

    def sent(self, size_bytes: int) -> None:
        self._sent += size_bytes

    def taken(self, through_bytes: int) -> None:
        """Moves the window to what the client says it took; ignores more than was sent, or less than before."""
        if self._taken < through_bytes <= self._sent:
            self._taken = through_bytes
            self._changed.set()

    @property
    def _untaken_bytes(self) -> int:
        return self._sent - self._taken
