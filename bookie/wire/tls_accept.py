"""TLS accept: admits connections and performs the TLS handshake before a protocol sees them."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from metadata.audit import Act, record_audit

from .connection_table import ClientConnection, ConnectionTable
from .data import sockets

log = logging.getLogger(__name__)


class TlsAccept:
    """Accepts connections on a bound socket until closed. Each connection is counted in the table before its handshake.

    `context`: called for each connection, so that each one uses the newest certificates. `protocol`: called with an
    admitted connection to make its protocol, whose `connection_lost` is called even if the handshake fails.
    """

    def __init__(
        self,
        sock: socket.socket,
        table: ConnectionTable,
        context: Callable[[], ssl.SSLContext],
        protocol: Callable[[ClientConnection], asyncio.Protocol],
    ) -> None:
        self._socket = sock
        self._table = table
        self._context = context
        self._protocol = protocol
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Stops accepting, and closes connections that are in the TLS handshake."""
        tasks = [self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        async for connection, peer in sockets.arrivals(self._socket):
            self._receive(connection, peer)

    def _receive(self, connection: socket.socket, peer: str) -> None:
        visitor = self._table.enter(peer, lambda _: None)
        if isinstance(visitor, str):
            record_audit(Act.REFUSED, visitor, where=peer)
            connection.close()  # before the handshake the peer would not understand any message
            return
        protocol = self._protocol(visitor)
        task = asyncio.get_running_loop().create_task(self._handshake(connection, visitor, protocol))

        def ended(_: asyncio.Task[None]) -> None:
            self._handshakes.discard(task)
            if task.cancelled():  # even if the handshake had not begun
                _send_away(connection, protocol)

        def cut(why: str) -> None:
            log.debug("closed a connection: %s", why, extra={"peer": visitor.peer})
            task.cancel()

        visitor.cut = cut
        self._handshakes.add(task)
        task.add_done_callback(ended)

    async def _handshake(
        self, connection: socket.socket, visitor: ClientConnection, protocol: asyncio.Protocol
    ) -> None:
        try:
            await sockets.secured(connection, lambda: protocol, self._context())
        except Exception as error:  # a bad certificate can make the parsers raise any exception
            why = sockets.audit_tls_failure(error, visitor.peer)
            log.info(
                "%s did not complete the TLS handshake: %s", visitor.peer, why, extra={"peer": visitor.peer}
            )
            _send_away(connection, protocol)


def _send_away(connection: socket.socket, protocol: asyncio.Protocol) -> None:
    connection.close()
    protocol.connection_lost(None)  # asyncio calls this only after a successful handshake
