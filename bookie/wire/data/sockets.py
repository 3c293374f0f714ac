"""Where connections come from: the one place of the data protocol that opens sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BACKLOG = 1024
"""Connections that may wait to be accepted."""

ACCEPTED_A_TURN_MAX = 32
"""Of them in one turn of the event loop: a crowd at the door stops nobody inside."""


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    return socket.create_server((host, port), backlog=BACKLOG)


async def listen(sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.AbstractServer:
    """Accepts connections on a socket that is bound, each with a protocol of its own."""
    # The event loop accepts as many at a time as it is told that may wait; the kernel is told another number.
    server = await asyncio.get_running_loop().create_server(protocol, sock=sock, backlog=ACCEPTED_A_TURN_MAX)
    sock.listen(BACKLOG)
    return server


async def connect(address: str, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    """Connects to "host:port". Raises OSError."""
    host, _, port = address.rpartition(":")
    await asyncio.get_running_loop().create_connection(protocol, host, int(port))


async def connect_inside(path: str, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    """Connects to a Unix socket, abstract or not. Raises OSError."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, path)  # by ourselves: uvloop takes no abstract path
        await loop.create_unix_connection(protocol, sock=sock)
    except BaseException:
        sock.close()
        raise
