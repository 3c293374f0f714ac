"""Metadata store on etcd, for a cluster of machines: a thin client over grpc.aio.

    create   txn: create_revision == 0                         ? put               : KeyExists
    replace  txn: exists, mod_revision, first bytes == version ? put (ignore_lease) : read to find out why
    delete   txn: exists, mod_revision, first bytes == version ? delete            : read to find out why

All changes of one event loop iteration are sent in one call, and so are all reads of single keys (`joined_txns`). All
reads are linearizable. The revision of a key's version is etcd's mod_revision.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import grpc

from ..errors import KeyExists, LeaseLost, NoSuchKey, StoreUnavailable, VersionConflict
from ..store import (
    PAGE_KEYS_MAX,
    EventKind,
    Lease,
    Page,
    StoreHealth,
    Versioned,
    WatchEvent,
    check_value,
    prefix_end,
)
from ..version import Version
from . import etcd_pb2 as pb
from .channel import Attempt, EtcdChannels, Metadata, unary
from .config import EtcdConfig
from .errors import AnswerLost, Effect, EtcdRefused, is_too_large
from .joined_txns import JoinedTxns
from .status import health_of
from .watch import resuming_watch

# Learns from the pages of earlier requests, separately for each prefix, how many keys to request from etcd at once.
#
# The number of bytes in a page is limited by an estimate of the size of its values. In addition, etcd counts all keys
# of the requested range, even those after the page's last key, so reading a range page by page would take time
# proportional to the square of the number of keys. Therefore, keys that end in a number, as those of ledgers do, are
# requested only up to the number at which the page will most likely end.

PAGE_BYTES = 512 * 1024
"""Size that a page has if its values are as large as those of the previous page."""

BYTES_EACH = 8 * 1024
"""Number of bytes assumed for a key and its value until the first page of the key's prefix has been read. It is high,
so that the first page is small."""

PREFIXES_MAX = 1000
"""Maximum number of prefixes for which statistics are kept. If more prefixes are listed, the store discards all
statistics and collects them again."""

IDS_EACH = 2.0
WIDENED = 8.0
"""Factor by which the next range is widened if a range held less than a page."""

_NUMBERED = re.compile(rb"(.*/)([0-7][0-9a-f]{15})", re.DOTALL)
_NUMBER_MAX = 2**63 - 1


@dataclass(slots=True)
class Paging:
    """Statistics of one prefix: the size of its values, and the distance between the numbers in its keys."""

    bytes_each: float = BYTES_EACH
    ids_each: float = IDS_EACH

    def limit(self, most: int) -> int:
        """Returns the number of keys to request for one page, at most `most`."""
        return max(1, min(most, int(PAGE_BYTES / self.bytes_each)))

    def end(self, after: bytes, limit: int) -> bytes | None:
        """Returns the key up to which a page of `limit` keys after the key `after` will most likely extend, or None to
        request a range without an end."""
        numbered = _NUMBERED.fullmatch(after)
        if numbered is None:
            return None
        last = int(numbered[2], 16) + int(limit * self.ids_each)
        return None if last >= _NUMBER_MAX else b"%s%016x" % (numbered[1], last)

    def learn(self, kvs: Sequence[pb.KeyValue], limit: int) -> None:
        """Updates the statistics from a page that was returned for a request of `limit` keys."""
        if kvs:
            self.bytes_each = max(1.0, sum(len(kv.key) + len(kv.value) for kv in kvs) / len(kvs))
        first, last = (_NUMBERED.fullmatch(kv.key) for kv in (kvs[0], kvs[-1])) if kvs else (None, None)
        if len(kvs) < limit:
            self.ids_each = min(self.ids_each * WIDENED, float(_NUMBER_MAX))
        elif first is not None and last is not None and first[1] == last[1]:
            self.ids_each = max(IDS_EACH, IDS_EACH * (int(last[2], 16) - int(first[2], 16)) / len(kvs))


HEALTH_SECONDS_MAX = 2.0
"""Time limit for a member's status."""

__all__ = ["EtcdConfig", "EtcdStore"]


class EtcdStore:
    """A metadata store in etcd under a prefix. See `MetadataStore` for its guarantees.

    The store connects at the first call. The constructor raises OSError if a certificate cannot be read.
    """

    def __init__(self, config: EtcdConfig) -> None:
        self._config = config
        self._prefix = config.prefix.encode() + b"/"
        self._channels = EtcdChannels(config)
        self._changes = JoinedTxns(lambda request: self._txn(request, Effect.ONCE))
        self._reads = JoinedTxns(self._read)
        self._paging: dict[str, Paging] = {}

    async def get(self, key: str) -> Versioned | None:
        read = pb.RequestOp(request_range=pb.RangeRequest(key=self._to_etcd(key)))
        reply = await self._reads.run(pb.TxnRequest(success=[read]))
        found = reply.responses[0].response_range
        return self._versioned(found.kvs[0]) if found.kvs else None

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        at = self._to_etcd(key)
        put = pb.PutRequest(key=at, value=value, lease=0 if lease is None else lease.lease_id)
        request = pb.TxnRequest(compare=[_absent(at)], success=[pb.RequestOp(request_put=put)])
        if unless is not None:
            barring = self._to_etcd(unless)
            request.compare.append(_absent(barring))
            request.failure.add(request_range=pb.RangeRequest(key=barring, limit=1))
        try:
            reply = await (
                self._changes.run(request, at) if lease is None else self._txn(request, Effect.ONCE)
            )
        except EtcdRefused as refused:
            raise _lease_lost(refused, lease) from refused
        if reply.succeeded:
            return Version(reply.header.revision, value)
        if unless is not None and reply.responses[0].response_range.kvs:
            raise KeyExists(unless)
        raise KeyExists(key)

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        put = pb.PutRequest(key=self._to_etcd(key), value=value, ignore_lease=True)
        return Version(await self._change_at(key, version, pb.RequestOp(request_put=put), unless), value)

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        deletion = pb.DeleteRangeRequest(key=self._to_etcd(key))
        await self._change_at(key, version, pb.RequestOp(request_delete_range=deletion), unless)

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        assert 1 <= limit <= PAGE_KEYS_MAX
        start = self._to_etcd(prefix)
        if len(self._paging) > PREFIXES_MAX:
            self._paging.clear()
        paging = self._paging.setdefault(prefix, Paging())
        limit = paging.limit(limit)
        at = start if after is None else max(start, self._to_etcd(after))
        first = at if after is None else at + b"\0"
        if (end := paging.end(at, limit)) is not None:
            found = await self._range_of(first, end + b"\0", limit)
            paging.learn(found.kvs, limit)
            if found.kvs:
                return self._page(found, end)
            first = end + b"\0"
        found = await self._range_of(first, prefix_end(start), limit)
        paging.learn(found.kvs, limit if found.more else 0)
        return self._page(found, None)

    async def _range_of(self, first: bytes, end: bytes, limit: int) -> pb.RangeResponse:
        """Returns the first keys in the range from `first` to before `end`: as many as fit in one answer."""
        request = pb.RangeRequest(key=first, range_end=end, limit=limit)
        while True:
            try:
                return await self._range(request)
            except EtcdRefused as refused:
                if not is_too_large(refused) or request.limit == 1:
                    raise
                request.limit //= 2

    def _page(self, found: pb.RangeResponse, looked_through: bytes | None) -> Page:
        """Returns the page with the keys in `found`. If these are all the keys of the requested range, the next page
        begins after `looked_through`, the last key of that range; `looked_through` is None if the range has no end."""
        items = tuple(self._versioned(kv) for kv in found.kvs)
        following = None if looked_through is None else self._from_etcd(looked_through)
        return Page(items, items[-1].key if found.more else following, found.header.revision)

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """See `MetadataStore.watch`. Cancelling a waiting `__anext__` ends the watch."""
        start = self._to_etcd(prefix)
        after = await self._revision() if after_revision is None else after_revision
        async with aclosing(resuming_watch(self._channels, start, prefix_end(start), after)) as events:
            async for event in events:
                kind = EventKind.DELETE if event.type == pb.Event.DELETE else EventKind.PUT
                yield WatchEvent(kind, self._from_etcd(event.kv.key), event.kv.value, event.kv.mod_revision)

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        """See `MetadataStore.grant_lease`. etcd grants whole seconds, and no less than its own minimum."""
        assert ttl_seconds > 0
        request = pb.LeaseGrantRequest(TTL=math.ceil(ttl_seconds))
        attempt = unary("/etcdserverpb.Lease/LeaseGrant", request, pb.LeaseGrantResponse.FromString)
        # Idempotent: if a second lease is granted, it expires without ever having a key.
        reply = await self._channels.run(attempt, Effect.REPEATABLE)
        return Lease(reply.ID, float(reply.TTL))

    async def keep_lease(self, lease: Lease) -> None:
        reply = await self._channels.run(_keep_alive(lease), Effect.REPEATABLE)
        if reply.TTL <= 0:
            raise LeaseLost(lease.lease_id)

    async def lease_left(self, key: str) -> float | None:
        """See `MetadataStore.lease_left`. etcd returns whole seconds."""
        found = await self._range(pb.RangeRequest(key=self._to_etcd(key)))
        if not found.kvs or not found.kvs[0].lease:
            return None
        request = pb.LeaseTimeToLiveRequest(ID=found.kvs[0].lease)
        attempt = unary("/etcdserverpb.Lease/LeaseTimeToLive", request, pb.LeaseTimeToLiveResponse.FromString)
        reply = await self._channels.run(attempt, Effect.READS)
        return float(reply.TTL) if reply.TTL >= 0 else None

    async def revoke_lease(self, lease: Lease) -> None:
        request = pb.LeaseRevokeRequest(ID=lease.lease_id)
        attempt = unary("/etcdserverpb.Lease/LeaseRevoke", request, pb.LeaseRevokeResponse.FromString)
        try:
            await self._channels.run(attempt, Effect.REPEATABLE)
        except EtcdRefused as refused:
            if refused.code is not grpc.StatusCode.NOT_FOUND:  # an expired lease is as good as a revoked one
                raise

    async def close(self) -> None:
        await self._channels.close()

    async def _change_at(
        self, key: str, version: Version, change: pb.RequestOp, unless: str | None = None
    ) -> int:
        """Makes the change if the key is at `version`; returns the revision of the change."""
        at = self._to_etcd(key)
        # mod_revision == 0 is true for a missing key, so existence is checked separately.
        exists = pb.Compare(target=pb.Compare.VERSION, result=pb.Compare.GREATER, key=at, version=0)
        same = pb.Compare(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=at, mod_revision=version)
        read = pb.RequestOp(request_range=pb.RangeRequest(key=at))
        compare = [exists, same, *_beginning(at, version.begins)]
        request = pb.TxnRequest(compare=compare, success=[change], failure=[read])
        if unless is not None:
            request.compare.append(_absent(barring := self._to_etcd(unless)))
            request.failure.add(request_range=pb.RangeRequest(key=barring, limit=1))
        reply = await self._changes.run(request, at)
        if reply.succeeded:
            return reply.header.revision
        if unless is not None and reply.responses[1].response_range.kvs:
            raise KeyExists(unless)
        if reply.responses[0].response_range.kvs:
            raise VersionConflict(key, version)
        raise NoSuchKey(key)

    async def health(self) -> StoreHealth:
        self._channels.check_open()
        seconds = min(self._config.timeout, HEALTH_SECONDS_MAX)
        return await health_of(self._channels, self._config.endpoints, seconds)

    async def _range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        attempt = unary("/etcdserverpb.KV/Range", request, pb.RangeResponse.FromString)
        return await self._channels.run(attempt, Effect.READS)

    async def _read(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Reads keys in one call. A single key is read without a transaction, which costs less."""
        if len(request.success) > 1:
            return await self._txn(request, Effect.READS)
        found = await self._range(request.success[0].request_range)
        return pb.TxnResponse(
            header=found.header, succeeded=True, responses=[pb.ResponseOp(response_range=found)]
        )

    async def _txn(self, request: pb.TxnRequest, effect: Effect) -> pb.TxnResponse:
        attempt = unary("/etcdserverpb.KV/Txn", request, pb.TxnResponse.FromString)
        return await self._channels.run(attempt, effect)

    async def _revision(self) -> int:
        """Returns the cluster's current revision, because a watch on a single member might otherwise start from an
        older one."""
        return (await self._range(pb.RangeRequest(key=self._prefix))).header.revision

    def _to_etcd(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def _from_etcd(self, key: bytes) -> str:
        return key.removeprefix(self._prefix).decode()

    def _versioned(self, kv: pb.KeyValue) -> Versioned:
        return Versioned(self._from_etcd(kv.key), kv.value, kv.mod_revision)


def _keep_alive(lease: Lease) -> Attempt[pb.LeaseKeepAliveResponse]:
    """Renews a lease once, on a separate stream: one request, one answer."""

    async def attempt(
        channel: grpc.aio.Channel, metadata: Metadata, seconds: float
    ) -> pb.LeaseKeepAliveResponse:
        call: grpc.aio.StreamStreamCall[bytes, pb.LeaseKeepAliveResponse] = channel.stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive", response_deserializer=pb.LeaseKeepAliveResponse.FromString
        )(timeout=seconds, metadata=metadata)
        try:
            await call.write(pb.LeaseKeepAliveRequest(ID=lease.lease_id).SerializeToString())
            reply = await call.read()
        except asyncio.InvalidStateError as error:
            raise AnswerLost("the keep-alive stream ended immediately") from error
        finally:
            call.cancel()
        if not isinstance(reply, pb.LeaseKeepAliveResponse):
            raise AnswerLost("etcd ended the keep-alive stream without an answer")
        return reply

    return attempt


def _absent(key: bytes) -> pb.Compare:
    return pb.Compare(target=pb.Compare.CREATE, result=pb.Compare.EQUAL, key=key, create_revision=0)


def _beginning(key: bytes, begins: bytes) -> list[pb.Compare]:
    """Returns conditions that hold if the key's value begins with `begins` and has more bytes, that is, if it lies
    between `begins` and the next value that does not begin with it."""
    if not begins:
        return []
    bounds = ((pb.Compare.GREATER, begins), (pb.Compare.LESS, prefix_end(begins)))
    return [pb.Compare(target=pb.Compare.VALUE, result=how, key=key, value=bound) for how, bound in bounds]


def _lease_lost(refused: EtcdRefused, lease: Lease | None) -> LeaseLost | StoreUnavailable:
    if lease is not None and refused.code is grpc.StatusCode.NOT_FOUND:
        return LeaseLost(lease.lease_id)
    return refused
