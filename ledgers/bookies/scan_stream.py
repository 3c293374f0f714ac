"""Flow control of one scan at the client: queues answers in order, and credits the bookie for those taken."""

from __future__ import annotations

import asyncio
from collections import deque

from bookie.wire import ScanRequest
from bookie.wire.data.framing import Body
from bookie.wire.rpc import MESSAGE_BYTES_MAX

from ..errors import BookieUnavailable

TOLD_SHARE = 2
"""Taken bytes are reported once they reach the window divided by this, before the bookie stalls."""


class ScanStream:
    """The queue of one scan, on one event loop. It and its reader hold at most the scan's window, or one page."""

    def __init__(self, request: ScanRequest) -> None:
        window, page = request.window_bytes, request.page_bytes
        self._bytes_max = window + MESSAGE_BYTES_MAX
        self._tell_bytes_min = max(1, min(window // TOLD_SHARE, window - page))
        self._came: deque[Body] = deque()
        self._error: BookieUnavailable | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._came_bytes = self._taken_bytes = self._told_bytes = 0

    @property
    def is_over_its_bound(self) -> bool:
        """Whether the bookie sends more than the scan's window allows."""
        return self._came_bytes - self._told_bytes > self._bytes_max

    def received(self, body: Body) -> None:
        self._came.append(body)
        self._came_bytes += len(body)
        self._wake()

    def failed(self, error: BookieUnavailable) -> None:
        """Ends the stream; answers that have arrived can still be taken."""
        self._error = error
        self._wake()

    async def take(self) -> Body:
        """Waits for the next answer. Raises BookieUnavailable when there are no more."""
        while not self._came:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        body = self._came.popleft()
        self._taken_bytes += len(body)
        return body

    def to_tell(self) -> int | None:
        """The bytes taken so far, if they are to be reported now. Everything taken counts as processed."""
        if self._taken_bytes - self._told_bytes < self._tell_bytes_min:
            return None
        self._told_bytes = self._taken_bytes
        return self._told_bytes

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
