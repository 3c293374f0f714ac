"""Requests maintenance of a bookie over gRPC, as any tool may."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from bookie.wire import BadMessage, codec, rpc
from bookie.wire.messages import MaintainReply, MaintainRequest
from bookie.wire.trust.certificates import Certificates
from metadata.fork_safety.forked_grpc import own_grpc

from ..errors import BookieUnavailable


class Maintenance:
    """Opens a channel for each request, since they are rare.

    With certificates, the bookie's has to name the host that is asked, as gRPC requires.
    """

    def __init__(self, certificates: Certificates | None = None) -> None:
        self._certificates = certificates

    async def ask(
        self, bookie: str, address: str, request: MaintainRequest, seconds_max: float
    ) -> MaintainReply:
        """Sends the request and returns the reply. Raises BookieUnavailable; the bookie ends what takes too long."""
        own_grpc(self)
        data = b"".join(codec.encode_maintain_request(request))
        try:
            async with self._channel(address) as channel:
                call: Any = channel.unary_unary(rpc.MAINTAIN)
                return codec.decode_maintain_reply(await call(data, timeout=seconds_max))
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
