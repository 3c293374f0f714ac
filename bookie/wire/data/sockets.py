"""Where connections come from: the one place of the data protocol that opens sockets."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable

from ...addresses import ipv6, parted, peer_of

BACKLOG = 1024
"""Connections that may wait to be accepted."""

ACCEPTED_A_TURN_MAX = 32
"""Of them in one turn of the event loop: a crowd at the door stops nobody inside."""

ACCEPT_PAUSE_SECONDS = 1.0
"""After the kernel would give no connection, for example without file descriptors, none is asked for so long."""

HANDSHAKE_SECONDS_MAX = 5.0
GOODBYE_SECONDS_MAX = 5.0
"""How long the other end may take to greet with TLS, and to say that it has heard our goodbye."""


log = logging.getLogger(__name__)


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; for `::` one of IPv4 as well, where the kernel has both. Raises OSError."""
    if (address := ipv6(host)) is None:
        return socket.create_server((host, port), backlog=BACKLOG)
    both = address.is_unspecified and socket.has_dualstack_ipv6()
    return socket.create_server(
        (str(address), port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=both
    )


def why_not_bound(error: OSError) -> str:
    """Why `bound` has failed, and what to do, for people."""
    match error.errno:
        case errno.EADDRINUSE:
            return "another process has that port (`ss -ltnp` tells which): stop it, or choose another port"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address: `ip address` tells those it has; 0.0.0.0 and :: are all of them"
        case errno.EACCES:
            return "ports below 1024 are for root: choose another port"
    if isinstance(error, socket.gaierror):
        return f"there is no host of that name ({error.strerror})"
    return error.strerror or str(error)


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
    host, port = parted(address)
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(protocol, host, port)
    else:
        await loop.create_connection(
            protocol,
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
        )


async def arrivals(sock: socket.socket) -> AsyncIterator[tuple[socket.socket, str]]:
    """Connections to a socket that is bound, and the addresses that they come from, without an end."""
    sock.setblocking(False)
    while True:
        try:
            connection, address = await asyncio.get_running_loop().sock_accept(sock)
        except OSError as error:
            log.warning("no connection can be accepted: %s", error)
            await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
        else:
            yield connection, peer_of(str(address[0]))
            await asyncio.sleep(0)  # while there are more, accepting gives nobody else a turn


async def secured(
    sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext
) -> None:
    """Serves a connection that was accepted, with TLS. Raises OSError; the protocol has heard nothing then.

    The buffers of TLS, some 300 KiB, are made when it has said something: many that say nothing cost little.
    """
    async with asyncio.timeout(HANDSHAKE_SECONDS_MAX):
        await _readable(sock)
    await asyncio.get_running_loop().connect_accepted_socket(
        protocol,
        sock,
        ssl=tls,
        ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
        ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
    )


async def _readable(sock: socket.socket) -> None:
    """Waits for bytes, or the end."""
    loop = asyncio.get_running_loop()
    has_come = asyncio.Event()
    loop.add_reader(sock, has_come.set)
    try:
        await has_come.wait()
    finally:
        loop.remove_reader(sock)


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
