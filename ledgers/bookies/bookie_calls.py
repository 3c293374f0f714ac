"""Calls to one bookie, one answer each, as many at a time as are asked for, over one connection.

The connection is made by the first call and kept. When it is lost all its calls fail, and the next one makes another.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import count

from bookie.wire.data.connection import Connection
from bookie.wire.data.framing import Body, Kind, Part
from metadata.records.ledger_record import BookieRef

from ..errors import BookieUnavailable
from .dialing import Dial, goodbye

CALLS_MAX = 4096
"""Calls of one client under way at one bookie."""


class BookieCalls:
    """See the module. Belongs to one event loop."""

    def __init__(self, bookie: BookieRef, dial: Dial) -> None:
        self._bookie = bookie
        self._dial = dial
        self._connection: Connection | None = None
        self._dialing: asyncio.Task[Connection] | None = None
        self._waiting: dict[int, asyncio.Future[Body]] = {}
        self._numbers = count(1)
        self._is_closed = False

    @property
    def heard_at(self) -> float:
        """When something came last from the bookie; never, while it is not connected."""
        return -math.inf if self._connection is None else self._connection.heard_at

    async def call(self, kind: Kind, body: Sequence[Part], seconds_max: float) -> Body:
        """The answer's body. Raises BookieUnavailable, after `seconds_max` at the latest."""
        try:
            async with asyncio.timeout(seconds_max):
                connection = await self._connected(seconds_max)
                return await self._answer(connection, kind, body)
        except TimeoutError:
            why = f"it did not answer within {seconds_max:g} s"
            raise BookieUnavailable(str(self._bookie), why) from None

    def hang_up(self, why: str) -> None:
        """Ends the connection; its calls fail with this reason, and the next call makes another connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(why)
            self.lost(why)

    async def close(self) -> None:
        """Ends everything; calls under way fail."""
        self._is_closed = True
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        self.hang_up("this client is closed")

    # --- the connection -----------------------------------------------------------------------

    async def _connected(self, seconds_max: float) -> Connection:
        """The connection there is, or the one that is being made, or a new one."""
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
        connection, _ = await self._dial(self, seconds_max)
        self._connection = connection
        return connection

    def _has_dialed(self, task: asyncio.Task[Connection]) -> None:
        self._dialing = None
        if not task.cancelled():
            task.exception()  # the calls that wait for it are told; perhaps none does any more

    async def _answer(self, connection: Connection, kind: Kind, body: Sequence[Part]) -> Body:
        if len(self._waiting) >= CALLS_MAX:
            raise BookieUnavailable(str(self._bookie), f"more than {CALLS_MAX} calls wait for it")
        number = next(self._numbers) & 0xFFFFFFFF
        answer: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        connection.send(kind, number, body)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.send(Kind.CANCEL, number)
            raise
        finally:
            self._waiting.pop(number, None)

    # --- what the connection tells --------------------------------------------------------------

    def received(self, kind: Kind, call: int, body: Body) -> None:
        if kind is Kind.GOODBYE:
            self.hang_up(goodbye(body))
            return
        answer = self._waiting.get(call)
        if answer is None or answer.done():  # nobody waits for it any more
            return
        if kind is Kind.REFUSED:
            answer.set_exception(BookieUnavailable(str(self._bookie), f"it refuses: {goodbye(body)}"))
        else:
            answer.set_result(body)

    def writable(self) -> None:
        """Requests are small: they wait in the connection's buffer."""

    def lost(self, why: str) -> None:
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(BookieUnavailable(str(self._bookie), why))
