"""Where connections come from: the one place of the data protocol that opens sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

BACKLOG = 1024
"""Connections that may wait to be accepted."""

ACCEPTED_A_TURN_MAX = 32
"""Of them in one turn of the event loop: a crowd at the door stops nobody inside."""

HANDSHAKE_SECONDS_MAX = 5.0
GOODBYE_SECONDS_MAX = 5.0
"""How long the other end may take to greet with TLS, and to say that it has heard our goodbye."""


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    return socket.create_server((host, port), backlog=BACKLOG)


async def listen(sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.AbstractServer:
    """Accepts connections on a socket that is bound, each with a protocol of its own."""
    # The event loop accepts as many at a time as it is told that may wait; the kernel is told another number.
    server = await asyncio.get_running_loop().create_server(protocol, sock=sock, backlog=ACCEPTED_A_TURN_MAX)
    sock.listen(BACKLOG)
    return server


async def connect(
    address: str, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None = None
) -> None:
    """Connects to "host:port", with TLS where there is a context for it. Raises OSError."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(protocol, host, int(port))
    else:
        await loop.create_connection(
            protocol,
            host,
            int(port),
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
        )


async def accepted(sock: socket.socket) -> tuple[socket.socket, str]:
    """The next connection to a socket that is bound, and the address it comes from. Raises OSError."""
    sock.setblocking(False)
    connection, address = await asyncio.get_running_loop().sock_accept(sock)
    return connection, str(address[0])


async def secured(
    sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext
) -> None:
    """Serves a connection that was accepted, with TLS. Raises OSError; the protocol has heard nothing then."""
    await asyncio.get_running_loop().connect_accepted_socket(
        protocol,
        sock,
        ssl=tls,
        ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
        ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
    )


async def connect_inside(path: str, name: str, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    """Connects to a Unix socket, abstract or not; `name` is our end's. Raises OSError."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        sock.bind(name)
        await loop.sock_connect(sock, path)  # by ourselves: uvloop takes no abstract path
        await loop.create_unix_connection(protocol, sock=sock)
    except BaseException:
        sock.close()
        raise
