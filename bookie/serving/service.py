"""gRPC service of a bookie, for infrequent calls and tools: info, maintenance, and notes of the bookie's ledgers.

Refusals are reported as statuses in the reply. A gRPC error code only means that the call was not carried out, because
the message cannot be decoded or the bookie is stopping. Entries, reads and fences use the data protocol (`data`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from metadata.audit import DONE, Act
from metadata.errors import MetadataError

from ..errors import BookieError
from ..wire import BadMessage, codec, grpc_methods
from ..wire.messages import (
    REPORT_BYTES_MAX,
    InfoRequest,
    MaintainReply,
    MaintainRequest,
    NotesRequest,
    Status,
)
from ..wire.trust.identity import Peer
from .grpc_tools import Context, check_right
from .request_processor import RequestProcessor

MAINTENANCE_MAX = 4
"""Limit on concurrent maintenance calls: operators issue them one after another, and each reads the whole disk."""

TOO_MUCH_MAINTENANCE = "this bookie already serves {} maintenance calls, which is the limit: try again later"
NO_MAINTENANCE = "this bookie does no maintenance"
STOPPING = "the bookie is stopping"

Maintain = Callable[[MaintainRequest], Awaitable[MaintainReply]]
WhoIs = Callable[[str], Peer]
Request = TypeVar("Request")


class BookieService:
    """Serves one bookie. `handlers` are the handlers for a gRPC server.

    `maintain` performs the maintenance that an operator requests. It is cancelled when the operator stops waiting or
    the bookie stops. If it raises BookieError, MetadataError or OSError, the error is returned as the answer. At most
    MAINTENANCE_MAX calls run at a time. `who_is` identifies a connection by its gRPC peer.
    """

    def __init__(
        self,
        requests: RequestProcessor,
        maintain: Maintain | None = None,
        who_is: WhoIs = lambda _: Peer(""),
    ) -> None:
        self.requests = requests
        self._maintain = maintain
        self._who_is = who_is
        self._maintained_now = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends long polls and maintenance."""
        self._stopping.set()
        self.requests.bookie.end_waits()

    def handlers(self) -> grpc.GenericRpcHandler:
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            grpc_methods.INFO: self._serving(
                grpc_methods.INFO, InfoRequest, lambda _who, _: self.requests.info()
            ),
            grpc_methods.MAINTAIN: self._serving(
                grpc_methods.MAINTAIN, MaintainRequest, self._serve_maintenance
            ),
            grpc_methods.NOTES: self._serving(
                grpc_methods.NOTES, NotesRequest, lambda _who, asked: self.requests.notes(asked)
            ),
        }
        names = {path.rsplit("/", 1)[1]: handler for path, handler in methods.items()}
        return grpc.method_handlers_generic_handler(grpc_methods.SERVICE, names)

    def _serving(
        self, method: str, kind: type[Request], serve: Callable[[Peer, Request], Awaitable[object]]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Wraps `serve` in authorization and decoding, so that a malformed message gets a clear error."""

        async def handler(data: bytes, context: Context) -> object:
            who = self._who_is(context.peer())
            await check_right(who, method, context)
            try:
                request = codec.decode(kind, data)
            except BadMessage as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            return await serve(who, request)

        return grpc.unary_unary_rpc_method_handler(handler, None, _bytes_of)

    async def _serve_maintenance(self, who: Peer, request: MaintainRequest) -> MaintainReply:
        """Performs maintenance, and audits it with its outcome."""
        outcome = "given up"
        try:
            reply = await self._maintained(request)
            outcome = DONE if reply.status is Status.OK else f"{reply.status}: {reply.detail}"
            return reply
        finally:
            who.record_audit(Act.MAINTENANCE, outcome, action=request.action.value, adopt=request.adopt)

    async def _maintained(self, request: MaintainRequest) -> MaintainReply:
        if self._maintain is None:
            return MaintainReply(Status.BAD_REQUEST, NO_MAINTENANCE)
        if self._maintained_now >= MAINTENANCE_MAX:
            why = TOO_MUCH_MAINTENANCE.format(self._maintained_now)
            return MaintainReply(Status.TOO_MANY_REQUESTS, why)
        self._maintained_now += 1
        try:
            reply = await self._unless_stopping(self._maintain(request))
        except (BookieError, MetadataError, OSError) as error:
            return MaintainReply(Status.IO_ERROR, str(error))
        finally:
            self._maintained_now -= 1
        if (size := len(reply.report.encode())) > REPORT_BYTES_MAX:
            over = f"its report of {size} bytes was omitted; the limit is {REPORT_BYTES_MAX}"
            return MaintainReply(reply.status, f"{reply.detail}; {over}" if reply.detail else over)
        return reply

    async def _unless_stopping(self, work: Awaitable[MaintainReply]) -> MaintainReply:
        """Runs maintenance, which can take hours, and cancels it if the bookie stops."""
        working, stopping = asyncio.ensure_future(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else MaintainReply(Status.STOPPING, STOPPING)
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)


def _bytes_of(reply: object) -> bytes:
    return b"".join(codec.encode(reply))
