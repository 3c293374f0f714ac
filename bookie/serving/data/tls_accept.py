"""TLS accept: admits connections, does the TLS handshake, then hands them on to protocol detection."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from ...wire.connection_table import ClientConnection, ConnectionTable
from ...wire.data import sockets
from ...wire.trust.certificates import Certificates
from .protocol_detection import ProtocolDetection

log = logging.getLogger(__name__)


class TlsAccept:
    """Accepts connections on a bound socket until closed. `detection` makes a connection's protocol."""

    def __init__(
        self,
        sock: socket.socket,
        table: ConnectionTable,
        certificates: Certificates,
        detection: Callable[[ClientConnection], ProtocolDetection],
    ) -> None:
        self._socket = sock
        self._table = table
        self._certificates = certificates
        self._detection = detection
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Stops accepting, and cuts connections in the TLS handshake."""
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
            connection.close()  # before the handshake the peer would understand no message
            return
        detection = self._detection(visitor)
        task = asyncio.get_running_loop().create_task(self._handshake(connection, visitor, detection))

        def ended(_: asyncio.Task[None]) -> None:
            self._handshakes.discard(task)
            if task.cancelled():  # perhaps before it began
                self._send_away(connection, detection)

        def cut(why: str) -> None:
            log.debug("closed a connection: %s", why, extra={"peer": visitor.peer})
            task.cancel()

        visitor.cut = cut
        self._handshakes.add(task)
        task.add_done_callback(ended)

    async def _handshake(
        self, connection: socket.socket, visitor: ClientConnection, detection: ProtocolDetection
    ) -> None:
        try:
            await sockets.secured(connection, lambda: detection, self._certificates.server)
        except Exception as error:  # any error: a bad certificate can make the parsers below raise anything
            why = sockets.tell_not_secured(error, visitor.peer)
            log.info(
                "%s did not complete the TLS handshake: %s", visitor.peer, why, extra={"peer": visitor.peer}
            )
            self._send_away(connection, detection)

    def _send_away(self, connection: socket.socket, detection: ProtocolDetection) -> None:
        connection.close()
        detection.connection_lost(None)  # asyncio does not call it without a finished handshake
