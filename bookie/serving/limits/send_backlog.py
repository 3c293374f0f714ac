"""Send backlog: accounts for the memory that a connection's pages occupy, from before they are read until the kernel
has taken them."""

from __future__ import annotations

from collections import deque

from ...wire.columnar_entries import ENTRY_BYTES_MAX
from ...wire.connection_table import ClientConnection
from ...wire.data.data_connection import Connection
from .admission import Guard


class SendBacklog:
    """Send backlog of one connection. A page that is larger than its reservation is counted at its actual size."""

    def __init__(self, connection: Connection, guard: Guard, visitor: ClientConnection) -> None:
        self._connection = connection
        self._account = guard.account(guard.untaken, visitor, self._taken)
        self._ends: deque[tuple[int, int]] = deque()

    async def reserve(self, bytes_max: int) -> int:
        """Waits until there is memory for a reply of about this many bytes; returns the amount reserved."""
        self.settle()
        reserved = max(1, min(bytes_max, ENTRY_BYTES_MAX))
        await self._account.take(reserved)
        return reserved

    def release(self, reserved: int) -> None:
        """Frees a reservation for which no reply will be sent."""
        self._account.change(-reserved)

    def sent(self, reserved: int, size_bytes: int) -> None:
        """Counts a reply that was handed to the connection."""
        self._account.change(size_bytes - reserved)
        self._ends.append((self._connection.sent_bytes, size_bytes))
        self.settle()

    def settle(self) -> None:
        """Frees the bytes that the kernel has taken."""
        taken = self._connection.taken_bytes
        while self._ends and self._ends[0][0] <= taken:
            self._account.change(-self._ends.popleft()[1])

    def close(self) -> None:
        self._ends.clear()
        self._account.close()

    def _taken(self) -> int | None:
        """Returns the number of bytes that the client has taken, which is used to detect stalled peers; None if the
        client has nothing left to take."""
        self.settle()
        return self._connection.taken_bytes if self._ends else None
