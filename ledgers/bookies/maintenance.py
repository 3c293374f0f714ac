"""Calls a bookie over gRPC, as any tool may: for maintenance, and for the notes it keeps of its ledgers."""

from __future__ import annotations

from typing import Any, TypeVar

import grpc
import grpc.aio

from bookie.wire import BadMessage, codec, rpc
from bookie.wire.messages import MaintainReply, MaintainRequest, NotesReply, NotesRequest
from bookie.wire.trust.certificates import Certificates
from metadata.fork_safety.forked_grpc import own_grpc

from ..errors import BookieUnavailable

Reply = TypeVar("Reply")


class Maintenance:
    """Opens a channel for each request, because requests are rare.

    With certificates, the bookie's must name the host that is asked, as gRPC requires.
    """

    def __init__(self, certificates: Certificates | None = None) -> None:
        self._certificates = certificates

    async def ask(
        self, bookie: str, address: str, request: MaintainRequest, seconds_max: float
    ) -> MaintainReply:
        """Sends the request and returns the reply. Raises BookieUnavailable. The bookie stops a task that takes too
        long."""
        return await self._call(bookie, address, rpc.MAINTAIN, request, MaintainReply, seconds_max)

    async def notes(self, bookie: str, address: str, request: NotesRequest, seconds_max: float) -> NotesReply:
        """Returns a page of the notes that the bookie keeps of its ledgers. Raises BookieUnavailable."""
        return await self._call(bookie, address, rpc.NOTES, request, NotesReply, seconds_max)

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
            return grpc.aio.insecure_channel(address, options=rpc.CHANNEL_OPTIONS)
        pem = self._certificates.pem
        credentials = grpc.ssl_channel_credentials(pem.authorities, pem.key, pem.certificate)
        return grpc.aio.secure_channel(address, credentials, options=rpc.CHANNEL_OPTIONS)
