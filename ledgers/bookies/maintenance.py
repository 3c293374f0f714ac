"""Acts of maintenance, asked of a bookie over gRPC as any tool may ask them."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from bookie.wire import BadMessage, codec, rpc
from bookie.wire.messages import MaintainReply, MaintainRequest
from metadata.forked_grpc import own_grpc

from ..errors import BookieUnavailable


class Maintenance:
    """Owns nothing between two calls: they are rare."""

    async def ask(
        self, bookie: str, address: str, request: MaintainRequest, seconds_max: float
    ) -> MaintainReply:
        """Raises BookieUnavailable; the bookie ends what takes too long."""
        own_grpc(self)
        data = b"".join(codec.encode_maintain_request(request))
        try:
            async with grpc.aio.insecure_channel(address, options=rpc.CHANNEL_OPTIONS) as channel:
                call: Any = channel.unary_unary(rpc.MAINTAIN)
                return codec.decode_maintain_reply(await call(data, timeout=seconds_max))
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
            raise BookieUnavailable(bookie, why) from error
        except BadMessage as error:
            raise BookieUnavailable(bookie, str(error)) from error
