"""Caps concurrent HTTP connections, in total and per address; when full, evicts from the address with the most
connections.

Gate        wraps the HTTP library's protocol of one connection: counts the connection, or refuses it with a reason
knowing     for each request: marks the request's connection as identified, and as busy
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.typedefs import Handler

from bookie.wire.connection_table import ClientConnection, ConnectionTable, Places, address_of
from metadata.audit import Act, record_audit

from .config import HttpConfig
from .problems import refusal

log = logging.getLogger(__name__)

STRANGERS_MAX = 32
"""Maximum number of connections that have not sent a request yet. The oldest is closed to make room for a new one."""


def table_of(config: HttpConfig) -> ConnectionTable:
    """Returns the table of connections. HTTP clients can reconnect at no cost, so idle connections may be closed at any
    time."""
    return ConnectionTable(
        Places.shared(
            config.peer_share,
            connections_max=config.connections_max,
            strangers_max=STRANGERS_MAX,
            own_idle_go=True,
            busy_go=True,
        )
    )


class Gate(asyncio.Protocol):
    """One connection. `visitor`: the peer of a TLS connection, which was counted before the handshake."""

    def __init__(
        self,
        table: ConnectionTable,
        inside: Callable[[], asyncio.Protocol],
        visitor: ClientConnection | None = None,
    ) -> None:
        self._table = table
        self._make_inside = inside
        self._inside: asyncio.Protocol | None = None
        self._visitor = visitor
        self._requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        address = address_of(transport)
        if self._visitor is None:
            visitor = self._table.enter(address, lambda _: None)
            if isinstance(visitor, str):
                record_audit(Act.REFUSED, visitor, where=address)
                transport.write(refusal(f"{visitor}: try again later"))
                transport.close()
                return
            self._visitor = visitor

        def cut(why: str) -> None:
            log.debug("a connection from %s was closed: %s", address, why, extra={"peer": address})
            transport.abort()

        self._visitor.cut = cut
        self._inside = self._make_inside()
        self._inside.connection_made(transport)

    def begins(self) -> None:
        """Records that a complete request has arrived."""
        if self._visitor is not None and self._visitor.is_stranger:
            self._table.is_known(self._visitor, lambda: not self._requests)
        self._requests += 1

    def ends(self) -> None:
        """Records that the request has been answered; the response may still be in transit."""
        self._requests -= 1

    def data_received(self, data: bytes) -> None:
        if self._inside is not None:
            self._inside.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inside.eof_received() if self._inside is not None else None

    def pause_writing(self) -> None:
        if self._inside is not None:
            self._inside.pause_writing()

    def resume_writing(self) -> None:
        if self._inside is not None:
            self._inside.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._visitor is not None:
            self._table.leave(self._visitor)
        if self._inside is not None:
            self._inside.connection_lost(exc)


@web.middleware
async def knowing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Marks the connection as busy while a request is handled."""
    gate = None if request.transport is None else request.transport.get_protocol()
    if not isinstance(gate, Gate):  # the connection has ended in the meantime
        return await handler(request)
    gate.begins()
    try:
        return await handler(request)
    finally:
        gate.ends()
