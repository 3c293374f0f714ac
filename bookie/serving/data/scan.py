"""Flow control of a scan: a window of bytes that were sent and that the client has not yet taken."""

from __future__ import annotations

import asyncio

from ...wire.messages import ReadReply, ScanRequest

UNTAKEN_SECONDS_MAX = 60.0
"""Time limit: if a client takes nothing for this long, the bookie ends its scan; the client may start another."""

NOT_TAKEN = f"the client took nothing of it for {UNTAKEN_SECONDS_MAX:.0f} s"


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
        """Waits until a page may be sent; False if the client has taken nothing for too long."""
        while self._untaken_bytes and self._untaken_bytes + self._page_bytes > self._window_bytes:
            self._changed.clear()
            try:
                async with asyncio.timeout(UNTAKEN_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def was_read(self, reply: ReadReply) -> None:
        """Moves on past a page and keeps none of it, so that a scan that waits for its client holds no entries."""
        self.has_ended = self._ends(reply)
        self.next_entry = reply.covered_through + 1

    def sent(self, size_bytes: int) -> None:
        self._sent += size_bytes

    def taken(self, through_bytes: int) -> None:
        """Moves the window to the count that the client reports; ignores more than was sent, or less than before."""
        if self._taken < through_bytes <= self._sent:
            self._taken = through_bytes
            self._changed.set()

    @property
    def _untaken_bytes(self) -> int:
        return self._sent - self._taken
