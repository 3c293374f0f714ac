"""Request-response calls and scans to one bookie, concurrently over one connection.

The first call opens the connection, which stays open. When it is lost, all calls on it fail, and the next call opens
another.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from itertools import count

from bookie.wire import ScanRequest, codec
from bookie.wire.data.data_connection import Connection
from bookie.wire.data.framing import Body, FrameKind, Part
from bookie.wire.grpc_methods import MESSAGE_BYTES_MAX
from bookie.wire.messages import BytesTaken
from metadata.records.ledger_record import BookieRef

from ..bookie_client import CannotScan
from ..errors import BookieUnavailable
from .dialing import Dial, goodbye

REPORT_SHARE = 2
"""Processed bytes are reported to the bookie at the latest when they amount to the window divided by this number, so
that the bookie does not stall."""


class ScanStream:
    """The queue of one scan, on one event loop. Together, the queue and its reader hold at most the scan's window, or
    one page if a page is larger than the window."""

    def __init__(self, request: ScanRequest) -> None:
        window, page = request.window_bytes, request.page_bytes
        self._bytes_max = window + MESSAGE_BYTES_MAX
        self._report_bytes_min = max(1, min(window // REPORT_SHARE, window - page))
        self._came: deque[Body] = deque()
        self._error: BookieUnavailable | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._came_bytes = self._taken_bytes = self._reported_bytes = 0

    @property
    def is_over_limit(self) -> bool:
        """Whether the bookie has sent more than the scan's window allows."""
        return self._came_bytes - self._reported_bytes > self._bytes_max

    def received(self, body: Body) -> None:
        self._came.append(body)
        self._came_bytes += len(body)
        self._wake()

    def failed(self, error: BookieUnavailable) -> None:
        """Ends the stream; answers that have arrived can still be taken."""
        self._error = error
        self._wake()

    async def take(self) -> Body:
        """Waits for the next answer. Raises BookieUnavailable when no more answers will arrive."""
        while not self._came:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        body = self._came.popleft()
        self._taken_bytes += len(body)
        return body

    def bytes_to_report(self) -> int | None:
        """Returns the total number of bytes taken since the scan began if it should be reported now, otherwise None.
        All bytes taken count as processed."""
        if self._taken_bytes - self._reported_bytes < self._report_bytes_min:
            return None
        self._reported_bytes = self._taken_bytes
        return self._reported_bytes

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


CALLS_MAX = 4096
"""Maximum number of one client's calls in flight at one bookie."""

SCANS_MAX = 64
"""Maximum number of one client's scans in flight at one bookie, each with a window of pages. Beyond that, readers
request single pages."""


class BookieCalls:
    """The calls and scans of one client to one bookie. Belongs to one event loop."""

    def __init__(self, bookie: BookieRef, dial: Dial) -> None:
        self._bookie = bookie
        self._dial = dial
        self._connection: Connection | None = None
        self._dialing: asyncio.Task[Connection] | None = None
        self._waiting: dict[int, asyncio.Future[Body]] = {}
        self._scans: dict[int, ScanStream] = {}
        self._numbers = count(1)
        self._is_closed = False

    @property
    def heard_at(self) -> float:
        """When the bookie last sent anything, by the loop's clock; -inf while not connected."""
        return -math.inf if self._connection is None else self._connection.heard_at

    async def call(self, kind: FrameKind, body: Sequence[Part], seconds_max: float) -> Body:
        """Makes a call and returns the reply's body. Raises BookieUnavailable, within `seconds_max`."""
        try:
            async with asyncio.timeout(seconds_max):
                connection = await self._connected(seconds_max)
                return await self._answer(connection, kind, body)
        except TimeoutError:
            raise self._no_answer(seconds_max) from None

    async def scan(self, request: ScanRequest, seconds_max: float) -> AsyncGenerator[Body, None]:
        """Yields the answers of a scan, each within `seconds_max`. Close the generator to end the scan.

        Raises BookieUnavailable, or CannotScan if too many scans are in flight or the bookie refuses this one.
        """
        try:
            async with asyncio.timeout(seconds_max):
                connection = await self._connected(seconds_max)
            if len(self._scans) >= SCANS_MAX:
                raise CannotScan(
                    str(self._bookie), f"more than {SCANS_MAX} scans of this bookie are in flight"
                )
            number, stream = next(self._numbers) & 0xFFFFFFFF, ScanStream(request)
            self._scans[number] = stream
            connection.send(FrameKind.SCAN, number, codec.encode(request))
            try:
                while True:
                    async with asyncio.timeout(seconds_max):
                        answer = await stream.take()
                    yield answer
                    del answer  # do not keep the answer in memory while waiting for the next one
                    if (taken := stream.bytes_to_report()) is not None:
                        connection.send(FrameKind.TAKEN, number, codec.encode(BytesTaken(taken)))
            finally:
                if self._scans.pop(number, None) is not None:
                    connection.send(FrameKind.CANCEL, number)
        except TimeoutError:
            raise self._no_answer(seconds_max) from None

    def hang_up(self, why: str) -> None:
        """Closes the connection; its calls fail with this reason, and the next call opens another connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(why)
            self.lost(why)

    async def close(self) -> None:
        """Closes everything; calls in flight fail."""
        self._is_closed = True
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        self.hang_up("this client is closed")

    # --- the connection -----------------------------------------------------------------------

    async def _connected(self, seconds_max: float) -> Connection:
        """Returns the connection, opening it first if necessary."""
        if self._connection is not None:
            return self._connection
        if self._is_closed:
            raise BookieUnavailable(str(self._bookie), "this client is closed")
        if self._dialing is None:
            self._dialing = asyncio.create_task(self._dial_anew(seconds_max))
            self._dialing.add_done_callback(self._has_dialed)
        dialing = self._dialing
        try:
            return await asyncio.shield(dialing)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not dialing.cancelled() or (task is not None and task.cancelling()):
                raise
            raise BookieUnavailable(str(self._bookie), "this client is closed") from None

    async def _dial_anew(self, seconds_max: float) -> Connection:
        self._connection, _ = await self._dial(self, seconds_max)
        return self._connection

    def _has_dialed(self, task: asyncio.Task[Connection]) -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: there may be no call waiting for it

    async def _answer(self, connection: Connection, kind: FrameKind, body: Sequence[Part]) -> Body:
        if len(self._waiting) >= CALLS_MAX:
            raise BookieUnavailable(
                str(self._bookie), f"more than {CALLS_MAX} calls to this bookie are in flight"
            )
        number = next(self._numbers) & 0xFFFFFFFF
        answer: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        connection.send(kind, number, body)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.send(FrameKind.CANCEL, number)
            raise
        finally:
            self._waiting.pop(number, None)

    def _no_answer(self, seconds_max: float) -> BookieUnavailable:
        return BookieUnavailable(str(self._bookie), f"it did not answer within {seconds_max:g} s")

    # --- events of the connection ---------------------------------------------------------------

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        if kind is FrameKind.GOODBYE:
            self.hang_up(goodbye(body))
            return
        if call in self._scans:
            self._scanned(call, kind, body)
            return
        answer = self._waiting.get(call)
        if answer is None or answer.done():  # no call is waiting for this answer any more
            return
        if kind is FrameKind.REFUSED:
            answer.set_exception(
                BookieUnavailable(str(self._bookie), f"it refuses the call: {goodbye(body)}")
            )
        else:
            answer.set_result(body)

    def _scanned(self, call: int, kind: FrameKind, body: Body) -> None:
        stream = self._scans[call]
        if kind is FrameKind.REFUSED:
            del self._scans[call]
            stream.failed(CannotScan(str(self._bookie), f"it refuses the scan: {goodbye(body)}"))
            return
        stream.received(body)
        if stream.is_over_limit:
            self.hang_up("it sends more of a scan than the window allows")

    def writable(self) -> None:
        """Does nothing: requests are small and wait in the connection's buffer."""

    def lost(self, why: str) -> None:
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        scans, self._scans = self._scans, {}
        for stream in scans.values():
            stream.failed(BookieUnavailable(str(self._bookie), why))
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(BookieUnavailable(str(self._bookie), why))
