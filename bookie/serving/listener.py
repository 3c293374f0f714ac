"""Listens on a bookie's port for the data protocol and gRPC; refuses calls until the log is replayed.

The bound port and the registered name prevent a second process from serving the same bookie, so the bookie binds and
registers before it replays the log, which can take a minute. Clients that call in the meantime are refused immediately,
so that a writer that probes the bookie picks another one instead of waiting.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio

from metadata.audit import Act, record_audit

from ..addresses import join_host_port, strip_brackets
from ..config import BookieConfig
from ..errors import BookieError
from ..storage.bookie import Bookie
from ..wire import grpc_methods
from ..wire.connection_table import ClientConnection
from ..wire.data import in_process, sockets
from ..wire.data.data_connection import Connection
from ..wire.tls_accept import TlsAccept
from ..wire.trust.certificates import BadCertificates, Certificates
from ..wire.trust.identity import NOBODY, Identity, Peer
from .data.append_handler import STOPPING
from .data.data_session import STARTING, Session
from .data.grpc_proxy import GrpcProxy
from .data.protocol_detection import ProtocolDetection
from .limits import descriptors
from .limits.admission import Guard
from .request_processor import RequestProcessor
from .service import BookieService

STOP_SECONDS_MAX = 10.0
"""Time limit for open calls to end when the bookie stops."""

IN_PROCESS = "in-process"
"""The address of clients in the bookie's own process. Like every other address, it gets a share of the limits."""

ABORT_SECONDS_MAX = 1.0
"""Time limit for aborted connections to report that they are closed."""


log = logging.getLogger(__name__)


class Listener:
    """One bookie's port, for the data protocol and gRPC. Serves nothing until `serve` is called."""

    def __init__(self, config: BookieConfig) -> None:
        """Binds the port. Raises BookieError if that fails."""
        mine = (descriptors.allow_most() - config.descriptors_elsewhere) // config.bookies_in_process
        self.certificates = _certificates(config)
        self.guard = Guard(config.limits, mine, asyncio.get_running_loop().time)
        self._socket = _bound(config)
        port = self._socket.getsockname()[1]
        self.address = join_host_port(strip_brackets(config.advertised_host or config.host), port)
        """The address that clients connect to."""
        # An abstract socket name, so that no file is left behind if the process is killed.
        self._inside = f"bookledger-{secrets.token_hex(16)}"
        self._grpc = grpc.aio.server(
            options=grpc_methods.SERVER_OPTIONS, maximum_concurrent_rpcs=grpc_methods.CALLS_OF_ALL_MAX
        )
        self._gate = _Gate()
        self._grpc.add_generic_rpc_handlers((self._gate,))
        self._grpc.add_insecure_port(f"unix-abstract:{self._inside}")
        self._server: asyncio.Server | None = None
        self._tls_accept: TlsAccept | None = None
        self._sessions: dict[Session, None] = {}
        self._others: dict[ProtocolDetection | GrpcProxy, None] = {}
        self._tools: dict[str, Peer] = {}
        self._all_lost = asyncio.Event()
        self._is_stopping = False
        self._bookie: Bookie | None = None
        self._service: BookieService | None = None

    async def start(self) -> None:
        await self._grpc.start()
        if self.certificates is None:
            self._server = await sockets.listen(self._socket, self._detection)
        else:
            certificates = self.certificates
            self._tls_accept = TlsAccept(
                self._socket, self.guard.table, lambda: certificates.server, self._detection
            )

    def serve(self, bookie: Bookie, service: BookieService, *others: grpc.GenericRpcHandler) -> None:
        """Passes calls to the bookie from now on."""
        self._bookie, self._service = bookie, service
        self._gate.handlers = (service.handlers(), *others)

    def join(self, identity: Identity, client: asyncio.BufferedProtocol) -> None:
        """Connects a client in this process, which needs no certificate. Raises ConnectionRefusedError."""
        if self._is_stopping:
            raise ConnectionRefusedError(STOPPING)
        entered = self.guard.table.enter(IN_PROCESS, lambda _: None)
        if isinstance(entered, str):
            record_audit(Act.REFUSED, entered, who=str(identity), where=IN_PROCESS)
            raise ConnectionRefusedError(entered)
        entered.identity = identity
        in_process.join(client, self._new_session(entered), self.address)

    async def stop(self) -> None:
        """Answers the accepted requests, accepts no more, and closes the port."""
        self._is_stopping = True
        if self._service is not None:
            self._service.stop()
        if self._server is not None:
            await sockets.stop_listening(self._server)
        if self._tls_accept is not None:
            await self._tls_accept.close()
        self._socket.close()
        # After a log failure, waiting requests are not answered: end immediately (B1).
        may_answer = self._bookie is not None and not self._bookie.failed.done()
        await self._end_sessions(STOP_SECONDS_MAX if may_answer else 0)
        await self._grpc.stop(STOP_SECONDS_MAX if may_answer else 0)
        for other in list(self._others):
            other.abort()
        self.guard.close()

    def why_distrusted(self, days: int = 0) -> str:
        """Returns why new connections fail now, or will fail within this many days, and how to fix that; "" if they
        will not fail."""
        return "" if self.certificates is None else self.certificates.why_expired(datetime.now(UTC), days)

    # ------------------------------------------------------------------------------------------

    def _detection(self, visitor: ClientConnection | None = None) -> ProtocolDetection:
        detection = ProtocolDetection(
            self.guard.table,
            self._new_session,
            self._new_forwarding,
            self._gone,
            self.certificates,
            visitor,
        )
        self._others[detection] = None
        return detection

    def _new_session(self, visitor: ClientConnection) -> Connection:
        session = Session(self._requests, self.guard, visitor, self._lost)
        self._sessions[session] = None
        return session.connection

    def _requests(self) -> RequestProcessor | None:
        return None if self._service is None else self._service.requests

    def _lost(self, session: Session) -> None:
        self._sessions.pop(session, None)
        if not self._sessions:
            self._all_lost.set()

    def _new_forwarding(self, visitor: ClientConnection) -> GrpcProxy:
        name = f"{self._inside}-{secrets.token_hex(16)}"  # no other process can guess this name and bind it

        def gone(forwarding: GrpcProxy) -> None:
            self.guard.table.leave(visitor)
            self._gone(forwarding)

        def inner_ends() -> None:
            self._tools.pop(name, None)  # before another connection can use the name

        self._tools[name] = visitor.who
        forwarding = GrpcProxy(f"\0{self._inside}", f"\0{name}", self.guard.tools, gone, inner_ends)
        visitor.cut = forwarding.abort
        self._others[forwarding] = None
        return forwarding

    def who_is(self, grpc_peer: str) -> Peer:
        """Identifies the peer of a gRPC proxy connection; returns NOBODY, which has no rights, if the connection
        bypassed the bookie's port."""
        return self._tools.get(grpc_peer.removeprefix("unix-abstract:"), NOBODY)

    def _gone(self, other: ProtocolDetection | GrpcProxy) -> None:
        self._others.pop(other, None)

    async def _end_sessions(self, seconds: float) -> None:
        if seconds:
            for session in list(self._sessions):
                session.stop()
        try:
            async with asyncio.timeout(seconds):
                await self._until_all_lost()
        except TimeoutError:
            for session in list(self._sessions):
                session.connection.abort("the bookie has stopped")
            with suppress(TimeoutError):  # connections still open are left to the kernel
                await asyncio.wait_for(self._until_all_lost(), ABORT_SECONDS_MAX)

    async def _until_all_lost(self) -> None:
        while self._sessions:
            self._all_lost.clear()
            await self._all_lost.wait()


class _Gate(grpc.GenericRpcHandler):
    """Routes gRPC calls to the bookie's handlers once it serves."""

    handlers: tuple[grpc.GenericRpcHandler, ...] = ()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        if not self.handlers:
            # a stream handler also serves unary calls
            return grpc.stream_stream_rpc_method_handler(_is_starting)
        found = (one.service(handler_call_details) for one in self.handlers)
        return next((one for one in found if one is not None), None)


async def _is_starting(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, STARTING)


def _certificates(config: BookieConfig) -> Certificates | None:
    """Loads the certificates. Returns None if connections are plain text, which is allowed on loopback or with
    `insecure`. Raises BookieError."""
    try:
        if config.certificates is not None:
            certificates = Certificates(config.certificates)
            if why := certificates.why_expired(datetime.now(UTC)):
                raise BookieError(why)
            return certificates
    except BadCertificates as error:
        raise BookieError(str(error)) from error
    if not _is_loopback(config.host):
        if not config.insecure:
            raise BookieError(
                f"{config.host} can be reached from other machines, and without certificates any client may do "
                "anything: pass --certs (bookledger certs makes them), or --insecure to serve anyway"
            )
        log.warning(
            "INSECURE: any client that reaches %s may read, write and maintain this bookie", config.host
        )
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(strip_brackets(host)).is_loopback
    except ValueError:
        return host == "localhost"


def _bound(config: BookieConfig) -> Any:
    try:
        return sockets.bound(config.host, config.port)
    except OSError as error:
        address = join_host_port(strip_brackets(config.host), config.port)
        raise BookieError(
            f"cannot listen on {address}: {sockets.why_not_bound(error)} (--host, --port)"
        ) from error
