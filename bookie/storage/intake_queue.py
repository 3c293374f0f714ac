"""The log's intake queue: requests that the bookie has accepted but not yet reported durable, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..log.format import BookieLogRecord, record_bytes
from ..log.group_commit import BookieLogWriter
from ..wire.messages import Status
from ..wire.named_tuples import made_of

OnAnswer = Callable[[Status, str], None]


class Arrival(NamedTuple):
    """Describes how a frame arrived: when it was complete (by the loop's clock), how many seconds it took to receive,
    and who sent it. Limits are counted per `peer`; `address` includes the port."""

    at: float
    network_seconds: float = 0.0
    peer: str = ""
    client: str = ""
    address: str = ""


new_arrival: Callable[[tuple[float, float, str, str, str]], Arrival] = made_of(Arrival)

NO_ARRIVAL = Arrival(0.0)
"""Arrival of records that did not come over the network."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that is waiting for the disk: how to answer it, and how it arrived.

    `is_ours`: whether the record comes from the bookie itself, for example as a copy of another record, rather than
    from a client. `is_deferred`: whether the request waits for the sync of other requests.
    """

    answer: OnAnswer
    arrival: Arrival
    is_ours: bool = False
    is_deferred: bool = False
    is_answered: bool = False


class Intake:
    """Bounded queue in front of the log, for back-pressure. Belongs to the event loop."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._submitted = 0
        self._reported = 0
        self._settling: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def room(self) -> None:
        """Waits until the log's queue has room; until then, callers read nothing from the network."""
        while not self._room.is_set():
            await self._room.wait()

    @property
    def bytes(self) -> int:
        """Number of bytes in the queue."""
        return self._bytes

    def submit(
        self,
        log: BookieLogWriter,
        record: BookieLogRecord,
        ticket: object | None,
        *,
        deferred_sync: bool = False,
    ) -> None:
        """Submits the record to the log, which reports the ticket back. A ticket of None means that no request waits
        for it."""
        self._submitted += 1
        if ticket is not None:
            assert isinstance(ticket, Ticket)
            ticket.is_deferred = deferred_sync
        self._bytes += log.submit(record, ticket, deferred_sync=deferred_sync)
        if self._bytes >= self.bytes_max:
            self._room.clear()

    def release(self, ticket: object | None, size_bytes: int) -> Ticket | None:
        """Frees a record's bytes and returns its ticket; None if it was already released or no request waits for it."""
        assert ticket is None or isinstance(ticket, Ticket)
        if ticket is not None and ticket.is_answered:
            return None
        if ticket is not None:
            ticket.is_answered = True
        self._bytes -= size_bytes
        if self._bytes < self.bytes_max:
            self._room.set()
        return ticket

    def refused(self, records: Sequence[tuple[object | None, BookieLogRecord]]) -> None:
        """Releases records that were not written to the log."""
        for ticket, record in records:
            self.release(ticket, record_bytes(record))
        self.reported(len(records))

    async def settled(self, failed: asyncio.Future[Any]) -> None:
        """Waits until each record submitted before the call has been applied or refused, or until the log has failed.
        This takes a few seconds at most."""
        settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._settling.append((self._submitted, settled))
        self.reported(0)
        await asyncio.wait([settled, failed], return_when=asyncio.FIRST_COMPLETED)

    def reported(self, records: int) -> None:
        """Counts records that have been applied or refused."""
        self._reported += records
        while self._settling and self._settling[0][0] <= self._reported:
            _, settled = self._settling.popleft()
            if not settled.done():  # the waiter may have been cancelled
                settled.set_result(None)
