"""Joins the changes, or the reads, of one event loop iteration into one call, which costs etcd one sync.

The joined transaction contains all conditions and all operations. If a condition does not hold, which is rare, nothing
is done, and each transaction is sent separately. No transaction reads a key that another one changes, so each has the
same outcome as if all were sent separately, in any order. All their changes have the same revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from . import etcd_pb2 as pb
from .errors import EtcdRefused

CONDITIONS_MAX = 100
"""Maximum number of conditions in a joined transaction. By default, etcd accepts 128 conditions, and the same number of
operations."""

JOINED_BYTES_MAX = 512 * 1024
"""Maximum size of a joined transaction. By default, etcd accepts requests of up to 1.5 MiB. A larger transaction is
sent separately."""


@dataclass(slots=True)
class _Txn:
    """A transaction that changes at most one key, and its outcome."""

    request: pb.TxnRequest
    changes: bytes | None
    reply: asyncio.Future[pb.TxnResponse]


class JoinedTxns:
    """Joins the transactions of one store. `send` sends a request, and decides whether it is retried. Belongs to the
    store's event loop."""

    def __init__(self, send: Callable[[pb.TxnRequest], Awaitable[pb.TxnResponse]]) -> None:
        self._send = send
        self._next: _Joined | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self, request: pb.TxnRequest, changes: bytes | None = None) -> pb.TxnResponse:
        """Executes a transaction that changes at most the key `changes`. Returns the reply, and raises the errors of
        `send`."""
        txn = _Txn(request, changes, asyncio.get_running_loop().create_future())
        joined = self._next
        if joined is not None and joined.takes(txn):
            joined.add(txn)
            return await txn.reply
        joined = self._next = _Joined()
        joined.add(txn)
        try:
            await asyncio.sleep(0)  # until the end of this loop iteration
        except asyncio.CancelledError:
            txn.reply.cancel()
            raise
        finally:
            if self._next is joined:
                self._next = None
            others = joined.txns[1:]
            if others:
                self._begin(joined.txns)
        # In the usual case, there are no other transactions.
        return await (txn.reply if others else self._send(request))

    def _begin(self, txns: list[_Txn]) -> None:
        wanted = [txn for txn in txns if not txn.reply.done()]
        if not wanted:  # all callers were cancelled
            return
        call = asyncio.get_running_loop().create_task(self._made(wanted))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _made(self, txns: list[_Txn]) -> None:
        """Sends these transactions in one call; if that call did nothing, sends each transaction separately."""
        try:
            replies = await self._together(txns) if len(txns) > 1 else [await self._send(txns[0].request)]
        except BaseException as error:
            for txn in txns:
                _end(txn, error)
            if not isinstance(error, Exception):
                raise
            return
        if replies is None:
            await asyncio.gather(*(self._made([txn]) for txn in txns))
            return
        for txn, reply in zip(txns, replies, strict=True):
            _end(txn, reply)

    async def _together(self, txns: list[_Txn]) -> list[pb.TxnResponse] | None:
        """Returns the replies; None if nothing was done, because a condition does not hold or because etcd refused the
        call: one of the transactions may not be permitted, or the answer may be too large."""
        request = pb.TxnRequest()
        for txn in txns:
            request.compare.extend(txn.request.compare)
            request.success.extend(txn.request.success)
        try:
            joined = await self._send(request)
        except EtcdRefused:
            return None
        if not joined.succeeded:
            return None
        responses = iter(joined.responses)
        return [_part(joined, [next(responses) for _ in txn.request.success]) for txn in txns]


@dataclass(slots=True)
class _Joined:
    """Transactions that are sent in one call."""

    txns: list[_Txn] = field(default_factory=list)
    _size_bytes: int = 0
    _conditions: int = 0
    _changed: set[bytes] = field(default_factory=set)
    _looked_at: set[bytes] = field(default_factory=set)

    def takes(self, txn: _Txn) -> bool:
        return (
            max(self._conditions + len(txn.request.compare), len(self.txns) + 1) <= CONDITIONS_MAX
            and self._size_bytes + txn.request.ByteSize() <= JOINED_BYTES_MAX
            and txn.changes not in self._looked_at
            and self._changed.isdisjoint(compare.key for compare in txn.request.compare)
        )

    def add(self, txn: _Txn) -> None:
        self.txns.append(txn)
        self._size_bytes += txn.request.ByteSize()
        self._conditions += len(txn.request.compare)
        self._looked_at.update(compare.key for compare in txn.request.compare)
        if txn.changes is not None:
            self._changed.add(txn.changes)


def _part(joined: pb.TxnResponse, responses: list[pb.ResponseOp]) -> pb.TxnResponse:
    return pb.TxnResponse(header=joined.header, succeeded=True, responses=responses)


def _end(txn: _Txn, outcome: pb.TxnResponse | BaseException) -> None:
    if txn.reply.done():
        return  # its caller was cancelled
    if isinstance(outcome, asyncio.CancelledError):
        txn.reply.cancel()
    elif isinstance(outcome, BaseException):
        txn.reply.set_exception(outcome)
    else:
        txn.reply.set_result(outcome)
