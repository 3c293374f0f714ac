"""The BookieClient over gRPC: one channel and one append stream to each bookie that is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    Status,
    codec,
    rpc,
)
from bookie.wire.messages import MaintainReply, MaintainRequest
from metadata.errors import MetadataError
from metadata.forked_grpc import own_grpc
from metadata.records import bookie_registry
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore

from ..bookie_client import LaneListener, LaneTerms
from ..config import ClientConfig
from ..errors import BookieUnavailable
from .append_stream import ELSEWHERE, AppendStream, describe
from .queued_lane import QueuedLane

Reply = TypeVar("Reply")
Answer = TypeVar("Answer", ReadReply, LacReply, HoldingsReply)

LONG_POLL_GRACE_SECONDS = 5.0
"""How much longer than it was told a long poll may take."""


class GrpcBookieClient:
    """See BookieClient. Addresses come from the registrations, by name, when a connection is made."""

    def __init__(self, store: MetadataStore, config: ClientConfig) -> None:
        own_grpc(self)
        self._store = store
        self._config = config
        self._channels: dict[BookieRef, grpc.aio.Channel] = {}
        self._streams: dict[BookieRef, AppendStream] = {}
        self._retired: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> QueuedLane:
        stream = self._streams.get(bookie)
        if stream is None:
            stream = AppendStream(bookie, self._config, lambda: self._connect(bookie), self._retire)
            self._streams[bookie] = stream
        return stream.open_lane(terms, listener, last_add_confirmed)

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        data = codec.encode_read_request(request)
        seconds = self._config.read_seconds_max
        return self._from_here(
            bookie, await self._call(bookie, rpc.READ, data, codec.decode_read_reply, seconds)
        )

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        seconds = self._config.read_seconds_max
        if request.wait_ms:
            seconds = request.wait_ms / 1000 + LONG_POLL_GRACE_SECONDS
        data = codec.encode_lac_request(request)
        return self._from_here(
            bookie, await self._call(bookie, rpc.LAST_ADD_CONFIRMED, data, codec.decode_lac_reply, seconds)
        )

    async def holdings(self, bookie: BookieRef, request: HoldingsRequest) -> HoldingsReply:
        """Where the bytes of a ledger lie on a bookie; a bookie of an older version answers BAD_REQUEST."""
        data = codec.encode_holdings_request(request)
        seconds = self._config.read_seconds_max
        try:
            reply = await self._call(bookie, rpc.HOLDINGS, data, codec.decode_holdings_reply, seconds)
            return self._from_here(bookie, reply)
        except BookieUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.UNIMPLEMENTED:
                return HoldingsReply(Status.BAD_REQUEST, detail="it is of a version that cannot tell")
            raise

    async def info(self, bookie: BookieRef) -> InfoReply:
        """What the bookie says of itself. Raises BookieUnavailable also when it is another incarnation.

        Where another one answers at the address that is known, the address is looked up once more.
        """
        reply = await self._info(bookie)
        if reply.incarnation != bookie.incarnation:
            self._look_up_again(bookie)
            reply = await self._info(bookie)
        if reply.incarnation != bookie.incarnation:
            raise BookieUnavailable(str(bookie), f"it is another incarnation now ({reply.incarnation})")
        return reply

    async def maintain(
        self, bookie: BookieRef, request: MaintainRequest, timeout_seconds: float
    ) -> MaintainReply:
        """Has the bookie look after itself. Raises BookieUnavailable; the bookie ends what takes too long."""
        data = codec.encode_maintain_request(request)
        return await self._call(bookie, rpc.MAINTAIN, data, codec.decode_maintain_reply, timeout_seconds)

    async def close(self) -> None:
        self._is_closed = True
        streams, self._streams = list(self._streams.values()), {}
        await asyncio.gather(*(stream.close() for stream in streams))
        if self._retired:
            await asyncio.wait(self._retired)
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    # ------------------------------------------------------------------------------------------

    async def _info(self, bookie: BookieRef) -> InfoReply:
        data = codec.encode_info_request(None)
        seconds = self._config.append_seconds_max
        return await self._call(bookie, rpc.INFO, data, codec.decode_info_reply, seconds)

    async def _call(
        self, bookie: BookieRef, method: str, data: bytes, decode: Callable[[bytes], Reply], seconds: float
    ) -> Reply:
        try:
            channel = await self._channel(bookie)
            call: Any = channel.unary_unary(method)
            return decode(await call(data, timeout=seconds))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the caller's own; any other is gRPC's way to say that the channel was closed under the call
            why = "this client is closed" if self._is_closed else "its connection was given up"
            raise BookieUnavailable(str(bookie), why) from None
        except grpc.aio.AioRpcError as error:
            self._forget_if_unreachable(bookie, error)
            raise BookieUnavailable(str(bookie), describe(error)) from error
        except (BadMessage, LookupError) as error:
            raise BookieUnavailable(str(bookie), str(error)) from error
        except MetadataError as error:
            raise BookieUnavailable(str(bookie), f"its address is unknown: {error}") from error

    async def _connect(self, bookie: BookieRef) -> Any:
        try:
            channel = await self._channel(bookie)
        except MetadataError as error:
            raise LookupError(f"its address is unknown: {error}") from error
        method: Any = channel.stream_stream(rpc.APPEND)
        return method()

    async def _channel(self, bookie: BookieRef) -> grpc.aio.Channel:
        channel = self._channels.get(bookie)
        if channel is None:
            address = await self._address(bookie)
            if self._is_closed:  # nobody would end the channel
                raise BookieUnavailable(str(bookie), "this client is closed")
            channel = self._channels.get(bookie) or grpc.aio.insecure_channel(
                address, options=rpc.CHANNEL_OPTIONS
            )
            self._channels[bookie] = channel
        return channel

    async def _address(self, bookie: BookieRef) -> str:
        found = await bookie_registry.find_bookie(self._store, bookie.bookie_id)
        if found is None:
            raise LookupError("it is not registered: it is stopped, or cut off from the metadata")
        if found.bookie != bookie:
            raise LookupError(
                f"another incarnation is registered under its name ({found.bookie.incarnation})"
            )
        return found.address

    def _forget_if_unreachable(self, bookie: BookieRef, error: grpc.aio.AioRpcError) -> None:
        """A bookie may come back under another address: look it up again next time."""
        if error.code() is grpc.StatusCode.UNAVAILABLE and bookie not in self._streams:
            self._close_later(self._channels.pop(bookie, None))

    def _from_here(self, bookie: BookieRef, reply: Answer) -> Answer:
        if reply.status is Status.WRONG_INCARNATION:
            self._look_up_again(bookie)
        return reply

    def _look_up_again(self, bookie: BookieRef) -> None:
        """Another one answers where this bookie was: it has moved, or is gone for good (rule W7)."""
        stream = self._streams.get(bookie)
        if stream is not None:
            stream.give_up(ELSEWHERE)
        else:
            self._close_later(self._channels.pop(bookie, None))

    def _retire(self, stream: AppendStream) -> None:
        """A stream is broken: the next lane to this bookie makes a new one, on a new channel."""
        for bookie, known in list(self._streams.items()):
            if known is stream:
                del self._streams[bookie]
                self._close_later(self._channels.pop(bookie, None))

    def _close_later(self, channel: grpc.aio.Channel | None) -> None:
        if channel is not None:
            # Calls on it may go on to their own time limit; closing at once would cancel them.
            closing = channel.close(max(self._config.read_seconds_max, self._config.append_seconds_max))
            task = asyncio.get_running_loop().create_task(closing)
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)
