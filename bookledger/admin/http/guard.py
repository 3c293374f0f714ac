"""TLS and authorization over HTTP: a handshake for each connection, the certificate's rights for each request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bookie.wire.connection_table import ClientConnection, ConnectionTable
from bookie.wire.data import sockets
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.identity import NoIdentity, Peer
from bookie.wire.trust.roles import ROUTES
from metadata.audit import Act, tell

from .gate import Gate
from .problems import Problem

_PEER: ContextVar[Peer | None] = ContextVar("peer", default=None)
"""The certificate's owner for the current request."""


def guard_of(certificates: Certificates) -> Middleware:
    """Refuses requests that the certificate does not allow, with 403 and the reason."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None:  # not found, for every client
            return await handler(request)
        who = _peer(request, certificates)
        _PEER.set(who)
        if why := who.may_not(ROUTES[resource.canonical]):
            who.tell(Act.REFUSED, why)
            raise Problem(HTTPStatus.FORBIDDEN, why)
        return await handler(request)

    return guard


def peer_of(request: web.Request) -> Peer:
    """The peer of a request; without certificates, only its address."""
    return _PEER.get() or Peer.of(request.remote or "", None)


def _peer(request: web.Request, certificates: Certificates) -> Peer:
    """Raises Problem for a peer without an identity."""
    address = request.remote or ""
    assert request.transport is not None, "nothing has been awaited since it came"
    try:
        identity = certificates.identity_of(request.transport.get_extra_info("ssl_object"))
    except NoIdentity as error:
        tell(Act.REFUSED, str(error), where=address)
        raise Problem(HTTPStatus.FORBIDDEN, str(error)) from None
    return Peer.of(address, identity)


@asynccontextmanager
async def tls_handshakes(
    bound: socket.socket,
    table: ConnectionTable,
    inside: Callable[[], asyncio.Protocol],
    certificates: Certificates,
) -> AsyncIterator[None]:
    """Accepts connections inside the block. Each uses the newest certificates, and is counted before the handshake."""
    handshakes: set[asyncio.Task[None]] = set()

    async def handshake(connection: socket.socket, visitor: ClientConnection, gate: Gate) -> None:
        try:
            await sockets.secured(connection, lambda: gate, certificates.http)
        except Exception as error:  # whatever error a certificate causes in the parsers below
            sockets.tell_not_secured(error, visitor.peer)
            send_away(connection, gate)

    def send_away(connection: socket.socket, gate: Gate) -> None:
        connection.close()
        gate.connection_lost(None)  # which is not called for a connection whose handshake failed

    def receive(connection: socket.socket, peer: str) -> None:
        visitor = table.enter(peer, lambda _: None)
        if isinstance(visitor, str):
            tell(Act.REFUSED, visitor, where=peer)
            connection.close()  # before the handshake there is no response that the client would understand
            return
        gate = Gate(table, inside, visitor)
        task = asyncio.create_task(handshake(connection, visitor, gate))

        def ended(_: asyncio.Task[None]) -> None:
            handshakes.discard(task)
            if task.cancelled():  # perhaps before it began
                send_away(connection, gate)

        def cut(_: str) -> None:
            task.cancel()

        visitor.cut = cut
        handshakes.add(task)
        task.add_done_callback(ended)

    async def accept() -> None:
        async for connection, peer in sockets.arrivals(bound):
            receive(connection, peer)

    accepting = asyncio.create_task(accept())
    try:
        yield
    finally:
        tasks = [accepting, *handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
