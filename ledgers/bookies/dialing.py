"""Connects to a bookie: looks up its address, and does the TLS and protocol handshakes."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable

from bookie.wire.data import sockets
from bookie.wire.data.data_connection import Connection, Handler
from bookie.wire.data.framing import Body, FrameKind, Goodbye
from bookie.wire.data.handshake import (
    BadHandshake,
    ClientHello,
    ServerHello,
    check_offered,
    decode_server_hello,
)
from bookie.wire.data.in_process import OwnBookie
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.identity import Identity, NoIdentity
from bookie.wire.trust.roles import Role
from metadata.errors import MetadataError
from metadata.records.cluster import find_bookie
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore

from ..errors import BookieStarting, BookieUnavailable

Dial = Callable[[Handler, float], Awaitable[tuple[Connection, ServerHello]]]
"""Opens a connection for this handler, within the given number of seconds. Raises BookieUnavailable."""

PERHAPS_TLS = (
    " before the handshake; a bookie with certificates does this to clients that have none (BOOKLEDGER_CERTS)"
)

GOODBYE_CHARACTERS_MAX = 500
"""Maximum length of a bookie's reason for ending the connection; the remainder is cut off."""


async def address_of(store: MetadataStore, bookie: BookieRef) -> str:
    """Looks up the bookie's registered address. Raises BookieUnavailable."""
    try:
        found = await find_bookie(store, bookie.bookie_id)
    except MetadataError as error:
        raise BookieUnavailable(str(bookie), f"its address is unknown: {error}") from error
    if found is None:
        why = "it is not registered: it has stopped, or cannot reach the metadata"
        raise BookieUnavailable(str(bookie), why)
    if found.bookie != bookie:
        why = f"another incarnation is registered under its name ({found.bookie.incarnation})"
        raise BookieUnavailable(str(bookie), why)
    return found.address


async def dial(
    bookie: BookieRef,
    address: str,
    handler: Handler,
    seconds_max: float,
    certificates: Certificates | None = None,
    own: OwnBookie | None = None,
) -> tuple[Connection, ServerHello]:
    """Connects to the address and completes the handshake. Raises BookieUnavailable or BookieStarting.

    With certificates, the peer must present the certificate of this bookie, unless the bookie is in this process
    (`own`). The handler receives no events from a connection that failed.
    """
    handshake = _Handshake()
    connection = Connection(handshake, asks=True)
    handshake.connection = connection
    try:
        async with asyncio.timeout(seconds_max):
            if own is not None:
                own.connect(connection)
            else:
                await _connect(bookie, address, connection, certificates)
            connection.send(FrameKind.HELLO, 0, [ClientHello().encode()])
            hello = await handshake.hello
    except TimeoutError:
        connection.abort("it did not answer in time")
        why = f"it did not answer within {seconds_max:g} s"
        raise BookieUnavailable(str(bookie), why) from None
    except OSError as error:
        why = f"cannot connect to {address}: {_describe_error(error)}"
        raise BookieUnavailable(str(bookie), why) from error
    except ValueError as error:  # NoIdentity, or a certificate that cannot be parsed
        connection.abort(str(error))
        raise BookieUnavailable(str(bookie), f"the peer at {address}: {error}") from None
    except _NoHandshake as error:
        why = str(error) if certificates else f"{error}{PERHAPS_TLS if handshake.is_silent else ''}"
        unavailable = BookieStarting if handshake.is_starting else BookieUnavailable
        raise unavailable(str(bookie), why) from None
    except BaseException:
        connection.abort("its caller no longer waits")
        raise
    connection.handler = handler
    if connection.is_lost:
        raise BookieUnavailable(str(bookie), "it ended the connection")
    return connection, hello


async def _connect(
    bookie: BookieRef, address: str, connection: Connection, certificates: Certificates | None
) -> None:
    tls = None if certificates is None else certificates.client
    await sockets.connect(address, lambda: connection, tls)
    if certificates is not None:
        _check_is(bookie, certificates.identity_of(connection.tls))


def _check_is(bookie: BookieRef, identity: Identity) -> None:
    if identity != Identity(Role.BOOKIE, bookie.bookie_id):
        raise NoIdentity(f"its certificate names {identity}, not bookie:{bookie.bookie_id}")


def _describe_error(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}"
    if error.errno is not None and error.errno > 0:  # asyncio's message would repeat the address
        return os.strerror(error.errno)
    return error.strerror or str(error)


class _NoHandshake(Exception):
    """The bookie did not complete the handshake."""


class _Handshake:
    """Handles a connection until the bookie has completed its side of the handshake."""

    connection: Connection

    def __init__(self) -> None:
        self.hello: asyncio.Future[ServerHello] = asyncio.get_running_loop().create_future()
        self.is_silent = True
        self.is_starting = False

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        self.is_silent = False
        try:
            if kind is FrameKind.GOODBYE:
                self.is_starting = call == Goodbye.STARTING
                raise BadHandshake(goodbye(body))
            if kind is not FrameKind.SERVER_HELLO:
                raise BadHandshake("it did not answer the client hello")
            hello = decode_server_hello(body)
            check_offered(hello)
        except BadHandshake as error:
            self.connection.abort(str(error))
            return
        self.connection.reader.handshake_done()
        if not self.hello.done():
            self.hello.set_result(hello)

    def writable(self) -> None:
        """Does nothing, because no data is waiting to be sent."""

    def lost(self, why: str) -> None:
        if not self.hello.done():
            self.hello.set_exception(_NoHandshake(why))
            self.hello.exception()  # marks the exception as retrieved: there may be no caller waiting for it


def goodbye(body: Body) -> str:
    """Decodes a bookie's reason for ending the connection, as text for users."""
    return bytes(body).decode(errors="replace")[:GOODBYE_CHARACTERS_MAX] or "it ended the connection"
