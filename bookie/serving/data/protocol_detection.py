"""Protocol detection: distinguishes the data protocol from gRPC by the first bytes of a connection.

A bookie can therefore use one port for both. gRPC connections go through a proxy (`grpc_proxy`). If certificates are
configured, both protocols run inside TLS (`tls_accept`), and a certificate without a valid identity is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from metadata.audit import Act, record_audit

from ...wire.connection_table import ClientConnection, ConnectionTable, address_of
from ...wire.data.data_connection import Connection
from ...wire.data.framing import FrameKind, framed
from ...wire.trust.certificates import Certificates
from ...wire.trust.identity import NoIdentity
from .data_session import HELLO_SECONDS_MAX
from .grpc_proxy import GrpcProxy

log = logging.getLogger(__name__)

GRPC_BEGINS = b"PRI "
"""HTTP/2 begins with these bytes; as the header of a data protocol frame they would exceed every size limit."""


class ProtocolDetection(asyncio.Protocol):
    """Handles a connection until its protocol is known, then hands it over.

    Calls `on_known` at that point, or when the connection is lost. Refuses connections beyond the limits with a goodbye
    that clients of the data protocol understand.
    """

    def __init__(
        self,
        table: ConnectionTable,
        session: Callable[[ClientConnection], Connection],
        forwarding: Callable[[ClientConnection], GrpcProxy],
        on_known: Callable[[ProtocolDetection], None],
        certificates: Certificates | None = None,
        visitor: ClientConnection | None = None,
    ) -> None:
        """`visitor`: the connection's entry in the connection table, if the connection was admitted before the TLS
        handshake."""
        self._table = table
        self._certificates = certificates
        self._session = session
        self._forwarding = forwarding
        self._on_known = on_known
        self._seen = b""
        self._visitor = visitor
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        why = self._enter(self._transport)
        if why:
            record_audit(Act.REFUSED, why, where=address_of(transport))
            self._refuse(why)
            return
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(HELLO_SECONDS_MAX, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._visitor is None or self._patience is None:  # refused
            return
        self._seen += data
        if len(self._seen) < len(GRPC_BEGINS):
            return
        assert self._transport is not None
        self._patience.cancel()
        if not self._seen.startswith(GRPC_BEGINS):
            self._hand_on(self._session(self._visitor))
        elif self._table.is_tool(self._visitor):
            self._hand_on(self._forwarding(self._visitor))
        else:
            self.abort("too many tools are connected")

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._patience is not None:
            self._patience.cancel()
        if self._visitor is not None:
            self._table.leave(self._visitor)
        self._on_known(self)

    def abort(self, why: str = "") -> None:
        """Cuts the connection without giving a reason, because the client's protocol is unknown."""
        peer = "" if self._visitor is None else self._visitor.peer
        log.debug("closed a connection: %s", why, extra={"peer": peer})
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------------------------------

    def _enter(self, transport: asyncio.Transport) -> str:
        """Admits the connection and checks the client's identity. Returns why the connection is refused, or "" if it is
        not."""
        if self._visitor is None:
            entered = self._table.enter(address_of(transport), self.abort)
            if isinstance(entered, str):
                return entered
            self._visitor = entered
        self._visitor.cut = self.abort
        if self._certificates is not None:
            try:
                self._visitor.identity = self._certificates.identity_of(
                    transport.get_extra_info("ssl_object")
                )
            except NoIdentity as error:
                return str(error)
        return ""

    def _hand_on(self, inside: Connection | GrpcProxy) -> None:
        assert self._transport is not None
        self._on_known(self)
        self._transport.set_protocol(inside)
        inside.connection_made(self._transport)
        inside.feed(self._seen)

    def _refuse(self, why: str) -> None:
        assert self._transport is not None
        for part in framed(FrameKind.GOODBYE, 0, [why.encode()]):
            self._transport.write(part)
        self._transport.close()
