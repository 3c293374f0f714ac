"""The gRPC face of a bookie: wire to storage and back, nothing else.

Refusals travel as a status in the reply. A gRPC error code only means that the call did not
happen: a message that cannot be decoded, or a bookie that is stopping.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from metadata.errors import MetadataError
from metadata.records.cluster import Cookie

from ..errors import BookieError
from ..storage.bookie import Bookie
from ..wire import BadMessage, codec, rpc
from ..wire.columns import ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX
from ..wire.credentials import (
    NONCE_BYTES,
    NONCE_METADATA_KEY,
    Purpose,
    StreamProofs,
    is_proven,
    statement,
)
from ..wire.messages import (
    REPORT_BYTES_MAX,
    Ack,
    AppendReply,
    AppendRequest,
    Credential,
    Frame,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    MaintainReply,
    MaintainRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from .verifiers import Verifiers

LONG_POLL_SECONDS_MAX = 60.0

ACKS_WAITING_MAX = 65_536
"""Answers a client has not read yet; past it nothing more is read from that client."""

TOO_LARGE = f"over the limit of {ENTRY_BYTES_MAX} bytes an entry or {FRAME_ENTRIES_MAX} entries a frame"

NO_MAINTENANCE = "this bookie does no maintenance"
STOPPING = "the bookie is stopping"

Context = grpc.aio.ServicerContext[Any, Any]
Maintain = Callable[[MaintainRequest], Awaitable[MaintainReply]]


class BookieService:
    """Serves one bookie. `handlers` is what a gRPC server is given.

    `maintain` does what an operator asks for, and is cancelled when the operator waits no longer or the
    bookie stops; what it raises of BookieError, MetadataError and OSError is the answer.
    """

    def __init__(
        self,
        bookie: Bookie,
        cookie: Cookie,
        directory: Path,
        version: str,
        verifiers: Verifiers | None = None,
        maintain: Maintain | None = None,
    ) -> None:
        self._bookie = bookie
        self._cookie = cookie
        self._directory = directory
        self._version = version
        self._verifiers = verifiers
        self._maintain = maintain
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends the append streams once what they have sent is answered, and whatever waits for news."""
        self._stopping.set()
        self._bookie.end_waits()

    def handlers(self) -> grpc.GenericRpcHandler:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            rpc.APPEND: stream(self._append, _bytes, codec.encode_append_reply),
            rpc.READ: unary(
                _decoding(codec.decode_read_request, self._read), _bytes, codec.encode_read_reply
            ),
            rpc.LAST_ADD_CONFIRMED: unary(
                _decoding(codec.decode_lac_request, self._last_add_confirmed), _bytes, codec.encode_lac_reply
            ),
            rpc.HOLDINGS: unary(
                _decoding(codec.decode_holdings_request, self._holdings), _bytes, codec.encode_holdings_reply
            ),
            rpc.INFO: unary(
                _decoding(codec.decode_info_request, self._info), _bytes, codec.encode_info_reply
            ),
            rpc.MAINTAIN: unary(
                _decoding(codec.decode_maintain_request, self._maintained),
                _bytes,
                codec.encode_maintain_reply,
            ),
        }
        names = {path.rsplit("/", 1)[1]: handler for path, handler in methods.items()}
        return grpc.method_handlers_generic_handler(rpc.SERVICE, names)

    async def _append(self, messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[AppendReply]:
        nonce = secrets.token_bytes(NONCE_BYTES)
        await context.send_initial_metadata(((NONCE_METADATA_KEY, nonce),))
        stream = _AppendStream(self._bookie, self._stopping, nonce, self._verifiers)
        reading = asyncio.create_task(stream.read_all(messages))
        try:
            async for reply in stream.replies():
                yield reply
            if reading.done():  # else the bookie is stopping, and hears no more from this client
                await reading
        except BadMessage as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _read(self, request: ReadRequest) -> ReadReply:
        if request.incarnation != self._bookie.incarnation:
            return ReadReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if request.fence and (why := await self._refuses_fence(request.ledger_id, request.credential)):
            return ReadReply(why[0], detail=why[1])
        return await self._bookie.read(request)

    async def _last_add_confirmed(self, request: LacRequest) -> LacReply:
        if request.incarnation != self._bookie.incarnation:
            return LacReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        if request.ledger_id < 0 or request.wait_ms > LONG_POLL_SECONDS_MAX * 1000:
            return LacReply(
                Status.BAD_REQUEST, detail=f"ledger {request.ledger_id}, wait {request.wait_ms} ms"
            )
        if request.fence and (why := await self._refuses_fence(request.ledger_id, request.credential)):
            return LacReply(why[0], detail=why[1])
        return await self._bookie.last_add_confirmed(request)

    async def _holdings(self, request: HoldingsRequest) -> HoldingsReply:
        if request.incarnation != self._bookie.incarnation:
            return HoldingsReply(Status.WRONG_INCARNATION, detail=self._who_we_are())
        return await self._bookie.holdings(request)

    async def _refuses_fence(self, ledger_id: int, credential: Credential) -> tuple[Status, str] | None:
        if not is_proven(credential, statement(Purpose.FENCE, ledger_id, self._bookie.incarnation)):
            return Status.UNAUTHORIZED, ""
        refused = await self._verifiers.refused([ledger_id]) if self._verifiers else {}
        return refused.get(ledger_id)

    async def _info(self, _: None) -> InfoReply:
        disk = os.statvfs(self._directory)
        return InfoReply(
            bookie_id=self._cookie.bookie_id,
            incarnation=self._cookie.incarnation,
            cluster_id=self._cookie.cluster_id,
            version=self._version,
            disk_bytes_total=disk.f_blocks * disk.f_frsize,
            disk_bytes_free=disk.f_bavail * disk.f_frsize,
            entries_added=self._bookie.counters.entries_added,
            bytes_added=self._bookie.counters.bytes_added,
            syncs=self._bookie.syncs,
            read_only=bool(self._bookie.space.why_read_only),
        )

    async def _maintained(self, request: MaintainRequest) -> MaintainReply:
        if self._maintain is None:
            return MaintainReply(Status.BAD_REQUEST, NO_MAINTENANCE)
        try:
            reply = await self._unless_stopping(self._maintain(request))
        except (BookieError, MetadataError, OSError) as error:
            return MaintainReply(Status.IO_ERROR, str(error))
        if (size := len(reply.report.encode())) > REPORT_BYTES_MAX:
            over = f"its report of {size} bytes was left out; the limit is {REPORT_BYTES_MAX}"
            return MaintainReply(reply.status, f"{reply.detail}; {over}" if reply.detail else over)
        return reply

    async def _unless_stopping(self, work: Awaitable[MaintainReply]) -> MaintainReply:
        """A bookie that stops does not sit out its own maintenance, which can take hours."""
        working, stopping = asyncio.ensure_future(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else MaintainReply(Status.STOPPING, STOPPING)
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    def _who_we_are(self) -> str:
        return f"this is incarnation {self._bookie.incarnation} of {self._cookie.bookie_id}"


class _AppendStream:
    """One client's append stream: frames in, acknowledgements out, each message as full as it can be.

    What waits to be written is bounded by the bookie's log queue: no message is read from the
    network while that is full, and HTTP/2's flow control holds the client back.
    """

    def __init__(
        self, bookie: Bookie, stopping: asyncio.Event, nonce: bytes, verifiers: Verifiers | None
    ) -> None:
        self._bookie = bookie
        self._verifiers = verifiers
        self._stopping = stopping
        self._proofs = StreamProofs(bookie.incarnation, nonce)
        self._acks: deque[Ack] = deque()
        self._wake = asyncio.Event()
        self._read = asyncio.Event()
        self._unanswered = 0
        self._ended = False

    async def read_all(self, messages: AsyncIterator[bytes]) -> None:
        try:
            async for message in messages:
                request = codec.decode_append_request(message)
                await self._bookie.room()
                while len(self._acks) >= ACKS_WAITING_MAX:
                    self._read.clear()
                    await self._read.wait()
                ledger_ids = [frame.ledger_id for frame in request.frames]
                refused = await self._verifiers.refused(ledger_ids) if self._verifiers else {}
                self._take(request, refused)
        finally:
            self._ended = True
            self._wake.set()

    async def replies(self) -> AsyncIterator[AppendReply]:
        """Acknowledgements as they come; ends when the client has and all its frames are answered."""
        stopping = asyncio.create_task(self._stop())
        try:
            while not (self._ended and not self._unanswered and not self._acks):
                await self._wake.wait()
                self._wake.clear()
                if self._acks:
                    acks, self._acks = tuple(self._acks), deque()
                    self._read.set()
                    yield AppendReply(acks)
        finally:
            stopping.cancel()

    async def _stop(self) -> None:
        await self._stopping.wait()
        self._ended = True
        self._wake.set()

    def _take(self, request: AppendRequest, refused: Mapping[int, tuple[Status, str]]) -> None:
        wrong = request.incarnation != self._bookie.incarnation
        for sequence, frame in enumerate(request.frames, request.first_sequence):
            self._unanswered += 1
            answer = self._answer(sequence)
            if wrong:
                answer(Status.WRONG_INCARNATION, f"this is incarnation {self._bookie.incarnation}")
            elif self._ended:
                answer(Status.STOPPING, STOPPING)
            elif too_large(frame):
                answer(Status.BAD_REQUEST, TOO_LARGE)
            elif not self._proofs.hold(frame.ledger_id, frame.credential):
                answer(Status.UNAUTHORIZED, "")
            elif frame.ledger_id in refused:
                answer(*refused[frame.ledger_id])
            else:
                self._bookie.append(frame, answer)

    def _answer(self, sequence: int) -> Callable[[Status, str], None]:
        def answer(status: Status, detail: str) -> None:
            self._unanswered -= 1
            self._acks.append(Ack(sequence, status, detail))
            self._wake.set()

        return answer


def too_large(frame: Frame) -> bool:
    """Whether the frame or some entry of it is over its limit; a small frame is not looked into."""
    columns = frame.columns
    if len(columns) > FRAME_ENTRIES_MAX:
        return True
    return len(columns.payload) > ENTRY_BYTES_MAX and max(columns.sizes) > ENTRY_BYTES_MAX


def _bytes(data: bytes) -> bytes:
    return data


def _decoding(decode: Callable[[bytes], Any], serve: Callable[[Any], Any]) -> Callable[[bytes, Context], Any]:
    """A handler that decodes by itself, so that a bad message gets a clear answer."""

    async def handler(data: bytes, context: Context) -> Any:
        try:
            request = decode(data)
        except BadMessage as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return await serve(request)

    return handler
