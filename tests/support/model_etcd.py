"""An etcd in memory that speaks its protocol over real gRPC, and breaks at the messages a test names.

It does what `metadata.etcd` asks for, no more: ranges, transactions, leases that are revoked and do not run out,
watches from any revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import grpc
import grpc.aio

from metadata.etcd import etcd_pb2 as pb


class Break(Enum):
    """What becomes of a message."""

    UNAVAILABLE = "the member goes away before it does anything"
    RESET = "the transport fails before it does anything"
    LOST = "it is done, and the answer is lost"
    SILENT = "it is done, and nothing is ever said; a watch, of which nobody could tell, just ends"
    ENDED = "a stream just ends; a call is not done"


class ModelEtcd:
    """`breaks`: what becomes of which message, counted over all calls and streams."""

    def __init__(self, breaks: Mapping[int, Break] | None = None) -> None:
        self.breaks = dict(breaks or {})
        self.messages = 0
        self.version = "3.5.9"
        self._revision = 1
        self._changes_at = 2
        self._keys: dict[bytes, pb.KeyValue] = {}
        self._leases: set[int] = set()
        self._lease_id = 1000
        self._events: list[pb.Event] = []
        self._changed = asyncio.Event()
        self._calls: dict[str, Callable[[bytes], Any]] = {
            "Range": self._range,
            "Txn": self._txn,
            "LeaseGrant": self._grant,
            "LeaseTimeToLive": self._time_to_live,
            "LeaseRevoke": self._revoke,
            "Status": self._status,
        }

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its endpoint, inside the block."""
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_Handlers(self),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)

    # --- messages -------------------------------------------------------------------------------

    async def call(self, method: str, request: bytes, context: Any) -> bytes:
        how = self._next_break()
        if how not in (None, Break.LOST, Break.SILENT):
            await self._broken(how, context)
        try:
            reply = self._calls[method](request)
        except LookupError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        if how is not None:
            await self._broken(how, context)
        reply.header.revision = self._revision
        data: bytes = reply.SerializeToString()
        return data

    async def keep_alive(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for data in requests:
            if (how := self._next_break()) is not None:
                await self._broken(how, context)
                return
            lease_id = pb.LeaseKeepAliveRequest.FromString(data).ID
            ttl = 60 if lease_id in self._leases else 0
            yield pb.LeaseKeepAliveResponse(ID=lease_id, TTL=ttl).SerializeToString()

    async def watch(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        wanted = pb.WatchRequest.FromString(await anext(aiter(requests))).create_request
        told = wanted.start_revision - 1
        response = pb.WatchResponse(created=True)
        while True:
            response.header.revision = self._revision
            how = self._next_break()
            if how not in (None, Break.LOST):
                await self._broken(Break.UNAVAILABLE if how is Break.SILENT else how, context)
                return
            yield response.SerializeToString()
            if how is Break.LOST:  # behind it
                await self._broken(Break.UNAVAILABLE, context)
            while not (events := self._events_behind(told, wanted)):
                self._changed.clear()
                await self._changed.wait()
            told = events[-1].kv.mod_revision
            response = pb.WatchResponse(events=events)

    def _next_break(self) -> Break | None:
        self.messages += 1
        return self.breaks.get(self.messages)

    async def _broken(self, how: Break | None, context: Any) -> None:
        match how:
            case Break.RESET:
                await context.abort(grpc.StatusCode.INTERNAL, "stream terminated by RST_STREAM")
            case Break.SILENT:
                await asyncio.Event().wait()
            case _:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: stopped")

    def _events_behind(self, revision: int, wanted: pb.WatchCreateRequest) -> list[pb.Event]:
        """All of the next revision that has any."""
        mine = [
            e
            for e in self._events
            if e.kv.mod_revision > revision and wanted.key <= e.kv.key < wanted.range_end
        ]
        return [e for e in mine if e.kv.mod_revision == mine[0].kv.mod_revision]

    # --- keys -----------------------------------------------------------------------------------

    def _range(self, data: bytes) -> pb.RangeResponse:
        request = pb.RangeRequest.FromString(data)
        end = request.range_end or request.key + b"\0"
        found = [self._keys[key] for key in sorted(self._keys) if request.key <= key < end]
        limit = request.limit or len(found)
        return pb.RangeResponse(kvs=found[:limit], more=len(found) > limit, count=len(found))

    def _txn(self, data: bytes) -> pb.TxnResponse:
        self._changes_at = self._revision + 1
        request = pb.TxnRequest.FromString(data)
        succeeded = all(map(self._is_so, request.compare))
        operations = request.success if succeeded else request.failure
        return pb.TxnResponse(succeeded=succeeded, responses=[self._done(one) for one in operations])

    def _is_so(self, compare: pb.Compare) -> bool:
        kv = self._keys.get(compare.key, pb.KeyValue())
        have: int | bytes
        want: int | bytes
        match compare.target:
            case pb.Compare.VALUE if not kv.version:
                return False
            case pb.Compare.VALUE:
                have, want = kv.value, compare.value
            case pb.Compare.CREATE:
                have, want = kv.create_revision, compare.create_revision
            case pb.Compare.MOD:
                have, want = kv.mod_revision, compare.mod_revision
            case _:
                have, want = kv.version, compare.version
        match compare.result:
            case pb.Compare.GREATER:
                return have > want  # type: ignore[operator]
            case pb.Compare.LESS:
                return have < want  # type: ignore[operator]
            case _:
                return have == want

    def _done(self, operation: pb.RequestOp) -> pb.ResponseOp:
        match operation.WhichOneof("request"):
            case "request_put":
                self._put(operation.request_put)
                return pb.ResponseOp(response_put=pb.PutResponse())
            case "request_delete_range":
                self._revision = self._changes_at
                self._delete(operation.request_delete_range.key)
                return pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse(deleted=1))
            case _:
                found = self._range(operation.request_range.SerializeToString())
                return pb.ResponseOp(response_range=found)

    def _put(self, put: pb.PutRequest) -> None:
        if put.lease and put.lease not in self._leases:
            raise LookupError("etcdserver: requested lease not found")
        self._revision = self._changes_at
        before = self._keys.get(put.key)
        self._keys[put.key] = pb.KeyValue(
            key=put.key,
            value=put.value,
            create_revision=before.create_revision if before else self._revision,
            mod_revision=self._revision,
            version=before.version + 1 if before else 1,
            lease=before.lease if before and put.ignore_lease else put.lease,
        )
        self._tell(pb.Event(type=pb.Event.PUT, kv=self._keys[put.key]))

    def _delete(self, key: bytes) -> None:
        """At the present revision."""
        del self._keys[key]
        self._tell(pb.Event(type=pb.Event.DELETE, kv=pb.KeyValue(key=key, mod_revision=self._revision)))

    def _tell(self, event: pb.Event) -> None:
        self._events.append(event)
        self._changed.set()

    # --- leases ---------------------------------------------------------------------------------

    def _grant(self, data: bytes) -> pb.LeaseGrantResponse:
        self._lease_id += 1
        self._leases.add(self._lease_id)
        return pb.LeaseGrantResponse(ID=self._lease_id, TTL=pb.LeaseGrantRequest.FromString(data).TTL)

    def _time_to_live(self, data: bytes) -> pb.LeaseTimeToLiveResponse:
        lease_id = pb.LeaseTimeToLiveRequest.FromString(data).ID
        return pb.LeaseTimeToLiveResponse(ID=lease_id, TTL=60 if lease_id in self._leases else -1)

    def _revoke(self, data: bytes) -> pb.LeaseRevokeResponse:
        lease_id = pb.LeaseRevokeRequest.FromString(data).ID
        if lease_id not in self._leases:
            raise LookupError("etcdserver: requested lease not found")
        self._leases.remove(lease_id)
        theirs = [key for key, kv in sorted(self._keys.items()) if kv.lease == lease_id]
        self._revision += bool(theirs)
        for key in theirs:
            self._delete(key)
        return pb.LeaseRevokeResponse()

    def _status(self, data: bytes) -> pb.StatusResponse:
        header = pb.ResponseHeader(member_id=1)
        return pb.StatusResponse(header=header, version=self.version, dbSize=4096, leader=1)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, etcd: ModelEtcd) -> None:
        self._etcd = etcd

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        method = handler_call_details.method.rpartition("/")[2]
        if method == "Watch":
            return grpc.stream_stream_rpc_method_handler(self._etcd.watch)
        if method == "LeaseKeepAlive":
            return grpc.stream_stream_rpc_method_handler(self._etcd.keep_alive)

        async def answered(request: bytes, context: Any) -> bytes:
            return await self._etcd.call(method, request, context)

        return grpc.unary_unary_rpc_method_handler(answered)
