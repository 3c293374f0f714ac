"""Opens the sockets of the data protocol: listens, accepts, connects, with or without TLS."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable

from metadata.audit import Act, record_audit

from ...addresses import parse_ipv6, peer_of, split_host_port

BACKLOG = 1024
"""Listen backlog: connections that may wait to be accepted."""

ACCEPTED_A_TURN_MAX = 32
"""Maximum number of connections accepted in one loop iteration: a flood of new ones must not stall the existing ones.
"""

ACCEPT_PAUSE_SECONDS = 1.0
"""Pause after the kernel fails to accept, for example because it has run out of file descriptors."""

HANDSHAKE_SECONDS_MAX = 5.0
GOODBYE_SECONDS_MAX = 5.0
"""Time limits for the peer's TLS handshake, and for its reply to our TLS shutdown."""


log = logging.getLogger(__name__)


def bound(host: str, port: int) -> socket.socket:
    """Returns a listening socket; `::` also listens on IPv4 if the kernel supports both. Raises OSError."""
    if (address := parse_ipv6(host)) is None:
        return socket.create_server((host, port), backlog=BACKLOG)
    both = address.is_unspecified and socket.has_dualstack_ipv6()
    return socket.create_server(
        (str(address), port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=both
    )


def why_not_bound(error: OSError) -> str:
    """Explains in words why `bound` failed, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return "another process has that port (`ss -ltnp` shows which): stop it, or choose another port"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address: `ip address` lists its addresses; 0.0.0.0 or :: is all of them"
        case errno.EACCES:
            return "only root may use ports below 1024: choose another port"
    if isinstance(error, socket.gaierror):
        return f"no host has that name ({error.strerror})"
    return error.strerror or str(error)


def describe_tls_failure(error: Exception) -> str:
    """Explains in words why `secured` failed; some errors have no text of their own."""
    if isinstance(error, TimeoutError):
        return f"it took longer than {HANDSHAKE_SECONDS_MAX:g} s"
    if isinstance(error, ConnectionError):
        return "the peer ended the connection, perhaps because it refuses our certificate"
    return str(error) or type(error).__name__


def audit_tls_failure(error: Exception, peer: str) -> str:
    """Records a failure of `secured` in the audit log, unless the peer merely disconnected; returns the reason."""
    why = describe_tls_failure(error)
    if not isinstance(error, ConnectionError):
        record_audit(Act.REFUSED, f"the TLS handshake failed: {why}", where=peer)
    return why


async def listen(sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    """Accepts connections on a bound socket, and makes a new protocol for each."""
    # asyncio also uses `backlog` as the number of connections to accept per iteration, so the kernel's backlog is
    # set below.
    server = await asyncio.get_running_loop().create_server(protocol, sock=sock, backlog=ACCEPTED_A_TURN_MAX)
    sock.listen(BACKLOG)
    return server


async def stop_listening(server: asyncio.Server) -> None:
    """Stops accepting connections, hands those that were accepted earlier to their protocols, and closes the port.

    An asyncio server that is closed right after it has accepted a connection loses that connection: the connection
    stays open, and its peer keeps waiting (CPython gh-109564).
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock)
    await asyncio.sleep(0)  # lets connections accepted in this iteration join the server
    await asyncio.sleep(0)  # lets these connections be handed to their protocols
    server.close()


async def connect(
    address: str, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None = None
) -> None:
    """Connects to "host:port", with TLS if there is a context for it. Raises OSError."""
    host, port = split_host_port(address)
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
    """Accepts connections on a bound socket forever; yields them with their peer addresses.

    The loop's own `sock_accept` loses a connection if its caller is cancelled just after the connection was accepted.
    """
    sock.setblocking(False)
    while True:
        await _readable(sock)
        try:
            connection, address = sock.accept()
        except BlockingIOError:
            continue  # the peer has closed the connection
        except OSError as error:
            log.warning("cannot accept connections: %s", error)
            await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
        else:
            connection.setblocking(False)
            yield connection, peer_of(str(address[0]))


async def secured(
    sock: socket.socket, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext
) -> None:
    """Performs the TLS handshake of an accepted connection. Raises OSError; in that case `protocol` was not called.

    The TLS buffers, about 300 KiB, are allocated only when the peer has sent something, so that silent peers cost
    little.
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
    """Waits until the socket has bytes, a connection to accept, or an end of file."""
    loop = asyncio.get_running_loop()
    has_come = asyncio.Event()
    loop.add_reader(sock, has_come.set)
    try:
        await has_come.wait()
    finally:
        loop.remove_reader(sock)


async def connect_inside(path: str, name: str, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
    """Connects to a Unix socket, abstract or not, from the address `name`. Raises OSError."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        sock.bind(name)
        # The socket is connected first, because uvloop does not accept an abstract path.
        await loop.sock_connect(sock, path)
        await loop.create_unix_connection(protocol, sock=sock)
    except BaseException:
        sock.close()
        raise
