"""The BookieClient over the data protocol: for each bookie in use, one connection for appends and one for calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc
import grpc.aio

from bookie.wire import (
    BadMessage,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
    codec,
    grpc_methods,
)
from bookie.wire.data.data_connection import Connection, Handler
from bookie.wire.data.framing import Body, FrameKind
from bookie.wire.data.handshake import ServerHello
from bookie.wire.messages import (
    HeldNote,
    InfoRequest,
    MaintainReply,
    MaintainRequest,
    NotesReply,
    NotesRequest,
    status_text,
)
from bookie.wire.trust.certificates import BadCertificates, Certificates, directory_of_environment
from bookie.wire.trust.identity import Identity
from metadata.fork_safety.forked_grpc import own_grpc
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore

from ..bookie_client import LaneListener, LaneTerms
from ..config import ClientConfig
from ..errors import BookieUnavailable, LedgerError
from ..loop_batching import LoopBatching
from .append_stream import ELSEWHERE, AppendStream
from .bookie_calls import BookieCalls
from .dialing import Dial, address_of, dial
from .queued_lane import QueuedLane

Reply = TypeVar("Reply")


class Maintenance:
    """Sends maintenance requests to bookies. Each request has a separate channel, because such requests are rare.

    With certificates, the bookie's certificate must name the host to which the request is sent, as gRPC requires.
    """

    def __init__(self, certificates: Certificates | None = None) -> None:
        self._certificates = certificates

    async def ask(
        self, bookie: str, address: str, request: MaintainRequest, seconds_max: float
    ) -> MaintainReply:
        """Sends the request and returns the reply. Raises BookieUnavailable. The bookie stops a task that takes too
        long."""
        return await self._call(bookie, address, grpc_methods.MAINTAIN, request, MaintainReply, seconds_max)

    async def notes(self, bookie: str, address: str, request: NotesRequest, seconds_max: float) -> NotesReply:
        """Returns a page of the notes that the bookie keeps about its ledgers. Raises BookieUnavailable."""
        return await self._call(bookie, address, grpc_methods.NOTES, request, NotesReply, seconds_max)

    async def _call(
        self,
        bookie: str,
        address: str,
        method: str,
        request: MaintainRequest | NotesRequest,
        of: type[Reply],
        seconds_max: float,
    ) -> Reply:
        own_grpc(self)
        try:
            async with self._channel(address) as channel:
                call: Any = channel.unary_unary(method)
                data = b"".join(codec.encode(request))
                return codec.decode(of, await call(data, timeout=seconds_max))
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
            raise BookieUnavailable(bookie, why) from error
        except BadMessage as error:
            raise BookieUnavailable(bookie, str(error)) from error

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._certificates is None:
            return grpc.aio.insecure_channel(address, options=grpc_methods.CHANNEL_OPTIONS)
        pem = self._certificates.pem
        credentials = grpc.ssl_channel_credentials(pem.authorities, pem.key, pem.certificate)
        return grpc.aio.secure_channel(address, credentials, options=grpc_methods.CHANNEL_OPTIONS)


Answer = TypeVar("Answer", ReadReply, LacReply, HoldingsReply)

LONG_POLL_GRACE_SECONDS = 5.0
"""Added to the wait of a long poll to obtain the time limit of the call."""


class ConnectedBookies:
    """See BookieClient. Looks up addresses by name in the registrations when it connects.

    Raises LedgerError if the configured certificates cannot be used.
    """

    def __init__(self, store: MetadataStore, config: ClientConfig, turn: LoopBatching | None = None) -> None:
        self._store = store
        self._turn = turn or LoopBatching()
        self._config = config
        self._streams: dict[BookieRef, AppendStream] = {}
        self._calls: dict[BookieRef, BookieCalls] = {}
        self._certificates = _certificates(config)
        self._is_closed = False

    @property
    def identity(self) -> Identity | None:
        """The client's identity to these bookies; None without certificates."""
        return self._certificates.identity if self._certificates else None

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> QueuedLane:
        return self._stream_to(bookie).open_lane(terms, listener, last_add_confirmed)

    def send_note(self, bookie: BookieRef, terms: LaneTerms, note: bytes) -> None:
        self._stream_to(bookie).send_note(terms, note)

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        call = self._call(bookie, FrameKind.READ, request, ReadReply, self._config.read_seconds_max)
        return self._from_here(bookie, await call)

    async def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        bodies = self._calls_to(bookie).scan(request, self._config.read_seconds_max)
        async with aclosing(bodies):
            async for answer in bodies:
                reply = self._from_here(bookie, _decoded(bookie, ReadReply, answer))
                del answer  # the reply has its own copy of the data it needs
                yield reply
                if request.ends(reply):
                    return
                del reply

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        seconds = self._config.read_seconds_max
        if request.wait_ms:
            seconds = request.wait_ms / 1000 + LONG_POLL_GRACE_SECONDS
        call = self._call(bookie, FrameKind.LAST_ADD_CONFIRMED, request, LacReply, seconds)
        return self._from_here(bookie, await call)

    async def holdings(self, bookie: BookieRef, request: HoldingsRequest) -> HoldingsReply:
        """Asks a bookie where it stores a ledger's bytes."""
        seconds = self._config.read_seconds_max
        call = self._call(bookie, FrameKind.HOLDINGS, request, HoldingsReply, seconds)
        return self._from_here(bookie, await call)

    def heard_at(self, bookie: BookieRef) -> float:
        """Returns when the bookie last sent anything, by the loop's clock; -inf while not connected."""
        known = (self._streams.get(bookie), self._calls.get(bookie))
        return max((one.heard_at for one in known if one is not None), default=-math.inf)

    async def info(self, bookie: BookieRef) -> InfoReply:
        """Asks the bookie for its state. Raises BookieUnavailable.

        If another incarnation answers at the known address, looks up the address and asks once more. If the answer is
        again from another incarnation, raises BookieUnavailable.
        """
        reply = await self._info(bookie)
        if reply.incarnation != bookie.incarnation:
            self._look_up_again(bookie)
            reply = await self._info(bookie)
        if reply.incarnation != bookie.incarnation:
            raise BookieUnavailable(
                str(bookie), f"a different incarnation now answers in its place ({reply.incarnation})"
            )
        return reply

    async def maintain(
        self, bookie: BookieRef, request: MaintainRequest, timeout_seconds: float
    ) -> MaintainReply:
        """Makes the bookie perform a maintenance task. Raises BookieUnavailable. The bookie stops a task that takes too
        long."""
        address = await self._address(bookie)
        return await Maintenance(self._certificates).ask(str(bookie), address, request, timeout_seconds)

    async def notes(self, bookie: BookieRef) -> AsyncGenerator[HeldNote, None]:
        """Yields the notes that the bookie keeps about its ledgers, ordered by ledger and first entry. Raises
        BookieUnavailable."""
        calls, asked, is_last = Maintenance(self._certificates), NotesRequest(bookie.incarnation), False
        while not is_last:
            address = await self._address(bookie)
            reply = await calls.notes(str(bookie), address, asked, self._config.read_seconds_max)
            if reply.status is not Status.OK:
                raise BookieUnavailable(str(bookie), status_text(reply))
            for one in reply.notes:
                yield one
                asked = NotesRequest(bookie.incarnation, one.ledger_id, one.first_entry + 1)
            is_last = reply.is_last

    async def close(self) -> None:
        self._is_closed = True
        streams, self._streams = list(self._streams.values()), {}
        calls, self._calls = list(self._calls.values()), {}
        await asyncio.gather(*[stream.close() for stream in streams], *[one.close() for one in calls])

    # ------------------------------------------------------------------------------------------

    async def _info(self, bookie: BookieRef) -> InfoReply:
        seconds = self._config.append_seconds_max
        return await self._call(bookie, FrameKind.INFO, InfoRequest(), InfoReply, seconds)

    async def _call(
        self,
        bookie: BookieRef,
        kind: FrameKind,
        request: ReadRequest | LacRequest | HoldingsRequest | InfoRequest,
        of: type[Reply],
        seconds: float,
    ) -> Reply:
        calls, body = self._calls_to(bookie), codec.encode(request)
        return _decoded(bookie, of, await calls.call(kind, body, seconds))

    def _stream_to(self, bookie: BookieRef) -> AppendStream:
        stream = self._streams.get(bookie)
        if stream is None:
            stream = AppendStream(bookie, self._config, self._dial_to(bookie), self._retire, self._turn)
            self._streams[bookie] = stream
        return stream

    def _calls_to(self, bookie: BookieRef) -> BookieCalls:
        if self._is_closed:
            raise BookieUnavailable(str(bookie), "this client is closed")
        calls = self._calls.get(bookie)
        if calls is None:
            calls = self._calls[bookie] = BookieCalls(bookie, self._dial_to(bookie))
        return calls

    def _dial_to(self, bookie: BookieRef) -> Dial:
        async def dialed(handler: Handler, seconds_max: float) -> tuple[Connection, ServerHello]:
            address = await self._address(bookie)
            own = self._config.own_bookie if self._is_own(bookie, address) else None
            return await dial(bookie, address, handler, seconds_max, self._certificates, own)

        return dialed

    def _is_own(self, bookie: BookieRef, address: str) -> bool:
        own = self._config.own_bookie
        return own is not None and (own.bookie, own.address) == (bookie, address)

    async def _address(self, bookie: BookieRef) -> str:
        return await address_of(self._store, bookie)

    def _from_here(self, bookie: BookieRef, reply: Answer) -> Answer:
        if reply.status is Status.WRONG_INCARNATION:
            self._look_up_again(bookie)
        return reply

    def _look_up_again(self, bookie: BookieRef) -> None:
        """Drops the connections, because another bookie answers at this address: the requested bookie has moved or is
        gone (rule W7)."""
        stream = self._streams.get(bookie)
        if stream is not None:
            stream.abort(ELSEWHERE)
        calls = self._calls.get(bookie)
        if calls is not None:
            calls.hang_up(ELSEWHERE)

    def _retire(self, stream: AppendStream) -> None:
        """Forgets a broken stream, so that the next lane to its bookie opens a new one."""
        for bookie, known in list(self._streams.items()):
            if known is stream:
                del self._streams[bookie]


def _decoded(bookie: BookieRef, of: type[Reply], body: Body) -> Reply:
    try:
        return codec.decode(of, body)
    except BadMessage as error:
        raise BookieUnavailable(str(bookie), str(error)) from error


def _certificates(config: ClientConfig) -> Certificates | None:
    directory = directory_of_environment() if config.certificates is None else config.certificates
    try:
        return Certificates(directory) if directory else None
    except BadCertificates as error:
        raise LedgerError(str(error)) from error
