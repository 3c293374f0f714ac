"""A client's session in the data protocol, from the handshake to the end of the connection."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from metadata.audit import Act

from ...wire import BadMessage
from ...wire.connection_table import ClientConnection
from ...wire.credentials import NONCE_BYTES
from ...wire.data.data_connection import Connection
from ...wire.data.framing import Body, FrameKind, Goodbye
from ...wire.data.handshake import BadHandshake, ServerHello, chosen_version, decode_hello
from ..limits.admission import Guard
from ..limits.password_proofs import FALSE_PROOF, PeerProofs
from ..request_processor import RequestProcessor
from .append_handler import STOPPING, AppendHandler
from .call_handler import CallHandler

log = logging.getLogger(__name__)

HELLO_SECONDS_MAX = 5.0
"""Handshake timeout: the client hello must arrive within this time."""

UNTAKEN_BYTES_MAX = 16 * 1024
"""Backlog of answers above which the bookie stops reading from a client. Pages are counted separately (`Limits`)."""

LARGE_KINDS = frozenset({FrameKind.APPEND})
"""Kinds of large messages that a client may send."""

SILENCE_SECONDS_MAX = 60.0
"""Idle timeout. Clients send something every ten seconds; a client that is paused for less than this time stays
connected."""

PENALTY = "false proofs came from its address"

STARTING = "the bookie is starting: it reads its log"

RequestsOf = Callable[[], RequestProcessor | None]


class Session:
    """Handles one connection. `requests_of` returns None until the bookie can serve."""

    def __init__(
        self,
        requests_of: RequestsOf,
        guard: Guard,
        visitor: ClientConnection,
        on_lost: Callable[[Session], None],
    ) -> None:
        self.connection = Connection(
            self,
            asks=False,
            silence_seconds_max=SILENCE_SECONDS_MAX,
            untaken_bytes_max=UNTAKEN_BYTES_MAX,
        )
        self._guard = guard
        self._visitor = visitor
        visitor.cut = self._cut
        self._memory = guard.account(guard.received, visitor, self._received)
        self.connection.memory = self._memory
        self._requests_of = requests_of
        self._on_lost = on_lost
        self._proofs: PeerProofs | None = None
        self._appends: AppendHandler | None = None
        self._calls: CallHandler | None = None
        self._is_stopping = self._has_ended = False
        self._handshake_timer = asyncio.get_running_loop().call_later(
            HELLO_SECONDS_MAX, self.connection.abort, "it sent no client hello"
        )

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        if self._appends is not None and kind is FrameKind.APPEND:
            try:
                self._appends.received(body)
            except BadMessage as error:
                self.end(str(error))
            return
        if isinstance(body, bytearray):  # small messages are processed immediately
            self._memory.change(-len(body))
        if self._calls is None:
            self._handshake(kind, body)
        else:
            self._calls.received(kind, call, body)

    def writable(self) -> None:
        if self._appends is not None and self._calls is not None:
            self._appends.writable()
            self._calls.writable()

    def lost(self, why: str) -> None:
        who = self._visitor.who
        about = {"peer": who.address, "client": str(who.identity or "")}
        log.debug("connection closed: %s", why, extra=about)
        self._handshake_timer.cancel()
        self._guard.table.leave(self._visitor)
        self._memory.close()
        if self._appends is not None and self._calls is not None:
            self._appends.end()
            self._calls.writable()
            self._calls.end()
        self._on_lost(self)

    def stop(self) -> None:
        """Answers the requests received so far, accepts no more, and ends the connection."""
        self._is_stopping = True
        if self._appends is not None and self._calls is not None:
            self._appends.is_stopping = True
            self._calls.stop()
        self._end_if_stopped()

    def end(self, why: str, reason: Goodbye = Goodbye.OTHERWISE) -> None:
        """Sends a goodbye with the reason, and ends the connection."""
        if not self._has_ended:
            self._has_ended = True
            self.connection.send(FrameKind.GOODBYE, reason, [why.encode()])
            self.connection.close(why)

    # ------------------------------------------------------------------------------------------

    def _handshake(self, kind: FrameKind, body: Body) -> None:
        requests = self._requests_of()
        try:
            if kind is not FrameKind.HELLO or not self._visitor.is_stranger:
                raise BadHandshake("the first frame of a connection must be a client hello")
            version = chosen_version(decode_hello(body))
            if self._is_stopping:
                raise BadHandshake(STOPPING)
        except BadHandshake as error:
            self.end(str(error))
            return
        if requests is None:
            self.end(STARTING, Goodbye.STARTING)
            return
        self._handshake_timer.cancel()
        self._guard.table.is_known(self._visitor, self._is_idle)
        if penalty := self._guard.suspects.penalty_seconds(self._visitor.peer):
            self.connection.hold(PENALTY)
            self._handshake_timer = asyncio.get_running_loop().call_later(
                penalty, self._accept_client, requests, version
            )
        else:
            self._accept_client(requests, version)

    def _accept_client(self, requests: RequestProcessor, version: int) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        proofs = PeerProofs(self._guard, self._visitor.peer, requests.bookie.incarnation, nonce)
        who = self._visitor.who
        self._appends = AppendHandler(requests, self.connection, who, proofs, self._memory, self._answered)
        self._calls = CallHandler(
            requests, self.connection, proofs, self._guard, self._visitor, self._answered
        )
        self._proofs = proofs
        self.connection.reader.handshake_done(LARGE_KINDS)
        self.connection.on_message = self._appends.received_message
        self.connection.go_on(PENALTY)
        hello = ServerHello(version, requests.bookie.incarnation, nonce)
        self.connection.send(FrameKind.SERVER_HELLO, 0, [hello.encode()])

    def _answered(self) -> None:
        """Ends the session once everything is answered, if a proof was invalid or the session is stopping."""
        if self._proofs is not None and self._proofs.is_false:
            if FALSE_PROOF not in self.connection.holds:
                self._visitor.who.record_audit(Act.REFUSED, FALSE_PROOF)
            self.connection.hold(FALSE_PROOF)
            if self._appends is None or self._appends.are_answered:
                self.end(FALSE_PROOF)
        elif self._is_stopping:
            self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        if self._is_stopping and self._is_idle():
            self.end(STOPPING)

    def _is_idle(self) -> bool:
        return (self._appends is None or self._appends.are_answered) and (
            self._calls is None or self._calls.are_answered
        )

    def _received(self) -> int | None:
        """Returns the number of bytes received on the connection, which is used to detect stalled peers, or None if the
        bookie is not waiting for the rest of a message."""
        connection = self.connection
        return (
            connection.received_bytes if connection.reader.is_under_way and not connection.is_held else None
        )

    def _cut(self, why: str) -> None:
        """Cuts the connection now, without waiting for the peer to read the goodbye, because it has stalled."""
        self.connection.send(FrameKind.GOODBYE, 0, [why.encode()])
        self.connection.abort(why)
