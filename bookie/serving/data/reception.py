"""TLS accept: admits connections, does the TLS handshake, then hands them on to protocol detection."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from metadata.audit import Act, tell

from ...wire.crowd import Crowd, Visitor
from ...wire.data import sockets
from ...wire.trust.certificates import Certificates
from .door import Door

log = logging.getLogger(__name__)


class Reception:
    """Accepts connections on a bound socket until closed. `door` makes a connection's protocol."""

    def __init__(
        self,
        sock: socket.socket,
        crowd: Crowd,
        certificates: Certificates,
        door: Callable[[Visitor], Door],
    ) -> None:
        self._socket = sock
        self._crowd = crowd
        self._certificates = certificates
        self._door = door
        self._greeting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Stops accepting, and cuts connections in the TLS handshake."""
        tasks = [self._accepting, *self._greeting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        async for connection, peer in sockets.arrivals(self._socket):
            self._receive(connection, peer)

    def _receive(self, connection: socket.socket, peer: str) -> None:
        visitor = self._crowd.enter(peer, lambda _: None)
        if isinstance(visitor, str):
            connection.close()  # before the handshake nothing could be sent that it understands
            return
        task = asyncio.get_running_loop().create_task(self._greet(connection, visitor))

        def cut(why: str) -> None:
            log.debug("a connection was cut: %s", why)
            task.cancel()

        visitor.cut = cut
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: socket.socket, visitor: Visitor) -> None:
        door = self._door(visitor)
        try:
            await sockets.secured(connection, lambda: door, self._certificates.server)
        except Exception as error:  # any error: a bad certificate can make the parsers below raise anything
            log.info("%s cannot be greeted: %s", visitor.peer, error)
            tell(Act.REFUSED, f"it cannot be greeted with TLS: {error}", where=visitor.peer)
            self._send_away(connection, door)
        except asyncio.CancelledError:
            self._send_away(connection, door)
            raise

    def _send_away(self, connection: socket.socket, door: Door) -> None:
        connection.close()
        door.connection_lost(None)  # asyncio does not call it without a finished handshake
