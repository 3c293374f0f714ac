"""Serves a connection's calls, each in its own task: reads, scans, LAC requests with long polls, fences, info."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from metadata.audit import Act

from ...storage.storage_metrics import RequestKind
from ...wire import BadMessage, codec
from ...wire.connection_table import ClientConnection
from ...wire.data.data_connection import Connection
from ...wire.data.framing import Body, FrameKind, Part
from ...wire.messages import (
    HOLDINGS_BYTES_MAX,
    BytesTaken,
    HoldingsReply,
    HoldingsRequest,
    InfoRequest,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
)
from ...wire.trust.roles import CALLS, Right
from ..limits.admission import Guard
from ..limits.password_proofs import PeerProofs
from ..limits.send_backlog import SendBacklog
from ..request_processor import RequestProcessor
from .append_handler import STOPPING

UNTAKEN_SECONDS_MAX = 60.0
"""Time limit: if a client accepts no data for this long, the bookie ends the client's scan; the client may start
another."""

NOT_TAKEN = f"the client took no part of the scan for {UNTAKEN_SECONDS_MAX:.0f} s"


class ScanState:
    """State of one scan. `next_entry`: the entry to read next, unless `has_ended` is set. Belongs to the event loop."""

    def __init__(self, request: ScanRequest) -> None:
        self.next_entry = request.first_entry
        self.has_ended = False
        self._ends = request.ends
        self._page_bytes, self._window_bytes = request.page_bytes, request.window_bytes
        self._sent = self._taken = 0
        self._changed = asyncio.Event()

    async def has_room(self) -> bool:
        """Waits until a page may be sent; returns False if the client has accepted no data for too long."""
        while self._untaken_bytes and self._untaken_bytes + self._page_bytes > self._window_bytes:
            self._changed.clear()
            try:
                async with asyncio.timeout(UNTAKEN_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def was_read(self, reply: ReadReply) -> None:
        """Advances past a page without keeping it, so that a scan waiting for its client does not hold any entries."""
        self.has_ended = self._ends(reply)
        self.next_entry = reply.covered_through + 1

    def sent(self, size_bytes: int) -> None:
        self._sent += size_bytes

    def taken(self, through_bytes: int) -> None:
        """Advances the window to the number of bytes that the client reports as taken. Ignores a number that exceeds
        the bytes sent or is lower than the previous one."""
        if self._taken < through_bytes <= self._sent:
            self._taken = through_bytes
            self._changed.set()

    @property
    def _untaken_bytes(self) -> int:
        return self._sent - self._taken


Reply = TypeVar("Reply", ReadReply, LacReply)
AnyReply = TypeVar("AnyReply", ReadReply, LacReply, HoldingsReply)

CALL_BYTES_MAX = 2 * 1024
"""Size limit of a call; real calls need less than a tenth of this."""

CALLS_A_CONNECTION_MAX = 4096
"""Limit on concurrent calls per connection, because each call is a task; most of them are long polls."""

READS_A_CONNECTION_MAX = 16
"""Limit on concurrent page reads per connection; no further reads begin while the connection's send backlog is full."""

REQUESTS = {
    FrameKind.READ: RequestKind.READ,
    FrameKind.SCAN: RequestKind.READ,
    FrameKind.LAST_ADD_CONFIRMED: RequestKind.LAST_ADD_CONFIRMED,
    FrameKind.HOLDINGS: RequestKind.HOLDINGS,
}
"""The kind of request under which a call is counted if it is refused before it is decoded."""

TOO_MANY = "too many calls on this connection are in progress"
TOO_MANY_OF_ALL = (
    "too many calls from clients of this bookie are in progress; try again later, or ask another bookie"
)


class CallHandler:
    """Serves the calls of one connection. Invokes `on_answered` after each answer."""

    def __init__(
        self,
        requests: RequestProcessor,
        connection: Connection,
        proofs: PeerProofs,
        guard: Guard,
        visitor: ClientConnection,
        on_answered: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._connection = connection
        self._proofs = proofs
        self._guard = guard
        self._peer = visitor.peer
        self._who = visitor.who
        self._on_answered = on_answered
        self._running: dict[int, asyncio.Task[None]] = {}
        self._scans: dict[int, ScanState] = {}
        self._is_stopping = False
        self._reads = asyncio.Semaphore(READS_A_CONNECTION_MAX)
        self._untaken = SendBacklog(connection, guard, visitor)
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def are_answered(self) -> bool:
        return not self._running

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        """Handles a call, a cancellation, or a flow-control message of a scan."""
        if kind is FrameKind.CANCEL:
            if call in self._running:
                self._running[call].cancel()
            return
        if kind is FrameKind.TAKEN:
            self._taken(call, body)
            return
        if len(body) > CALL_BYTES_MAX:
            self._refuse(call, f"the call has {len(body)} bytes; the limit is {CALL_BYTES_MAX}")
        elif len(self._running) >= CALLS_A_CONNECTION_MAX or call in self._running:
            self._turn_away(kind, call, Status.TOO_MANY_REQUESTS, TOO_MANY)
        elif not self._guard.calls.take_now(self._peer, 1):
            self._turn_away(kind, call, Status.TOO_MANY_REQUESTS, TOO_MANY_OF_ALL)
        else:
            task = asyncio.get_running_loop().create_task(self._serve(kind, call, body))
            self._running[call] = task
            task.add_done_callback(lambda _: self._ended(call))

    def stop(self) -> None:
        """Ends scans after their current page; answers all other calls."""
        self._is_stopping = True
        for call in list(self._scans):
            self._running[call].cancel()
            self._refuse(call, STOPPING)

    def end(self) -> None:
        """Cancels all calls of a lost connection."""
        self._untaken.close()
        for task in self._running.values():
            task.cancel()

    def writable(self) -> None:
        self._untaken.settle()
        self._writable.set()

    def _ended(self, call: int) -> None:
        task = self._running.pop(call)
        self._guard.calls.give(self._peer, 1)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._refuse(call, f"the bookie failed: {error!r}")
            raise error
        self._on_answered()

    async def _serve(self, kind: FrameKind, call: int, body: Body) -> None:
        if why := self._may_not(CALLS[kind]) if kind in CALLS else "":
            self._turn_away(kind, call, Status.UNAUTHORIZED, why)
            return
        try:
            match kind:
                case FrameKind.READ:
                    await self._read(call, codec.decode(ReadRequest, body))
                case FrameKind.SCAN:
                    await self._scan(call, codec.decode(ScanRequest, body))
                case FrameKind.LAST_ADD_CONFIRMED:
                    request = codec.decode(LacRequest, body)
                    reply = self._counted(request, await self._lac_or_fence(request))
                    self._connection.send(kind, call, codec.encode(reply))
                case FrameKind.HOLDINGS:
                    await self._holdings(call, codec.decode(HoldingsRequest, body))
                case FrameKind.INFO:
                    codec.decode(InfoRequest, body)
                    info = await self._requests.info()
                    self._connection.send(kind, call, codec.encode(info))
                case _:
                    raise BadMessage(f"{kind.name} is not a kind of call")
        except BadMessage as error:
            self._refuse(call, str(error))

    async def _read(self, call: int, request: ReadRequest) -> None:
        async def page() -> Sequence[Part]:
            return codec.encode(self._counted(request, await self._read_or_fence(request)))

        async with self._reads:
            await self._answer_large(FrameKind.READ, call, request.bytes_max, page)

    async def _scan(self, call: int, request: ScanRequest) -> None:
        scan = ScanState(request)

        async def page() -> Sequence[Part]:
            asked = request.page_from(scan.next_entry)
            reply = self._counted(asked, await self._read_or_fence(asked))
            scan.was_read(reply)
            return codec.encode(reply)

        if self._is_stopping:
            self._refuse(call, STOPPING)
            return
        self._scans[call] = scan
        try:
            while not scan.has_ended:
                if not await scan.has_room():
                    self._refuse(call, NOT_TAKEN)
                    return
                async with self._reads:
                    scan.sent(await self._answer_large(FrameKind.SCAN, call, request.page_bytes, page))
        finally:
            del self._scans[call]

    def _taken(self, call: int, body: Body) -> None:
        scan = self._scans.get(call)
        if scan is None:  # the scan has ended in the meantime
            return
        try:
            scan.taken(codec.decode(BytesTaken, body).bytes)
        except BadMessage as error:
            self._running[call].cancel()
            self._refuse(call, str(error))

    async def _read_or_fence(self, request: ReadRequest) -> ReadReply:
        if why := await self._of_others(request.ledger_id):
            return ReadReply(why[0], detail=why[1])
        if not request.fence:
            return self._audit_if_refused(request.ledger_id, await self._requests.read(request, self._proofs))
        return await self._fencing(
            request.ledger_id,
            lambda: self._requests.read(request, self._proofs),
            lambda why: ReadReply(Status.UNAUTHORIZED, detail=why),
        )

    async def _holdings(self, call: int, request: HoldingsRequest) -> None:
        async def runs() -> Sequence[Part]:
            return codec.encode(self._counted(request, await self._held(request)))

        await self._answer_large(FrameKind.HOLDINGS, call, HOLDINGS_BYTES_MAX, runs)

    async def _held(self, request: HoldingsRequest) -> HoldingsReply:
        if why := await self._of_others(request.ledger_id):
            return HoldingsReply(why[0], detail=why[1])
        return await self._requests.holdings(request)

    async def _lac_or_fence(self, request: LacRequest) -> LacReply:
        if why := await self._of_others(request.ledger_id):
            return LacReply(why[0], detail=why[1])
        if request.fence:
            return await self._fencing(
                request.ledger_id,
                lambda: self._requests.last_add_confirmed(request, self._proofs),
                lambda why: LacReply(Status.UNAUTHORIZED, detail=why),
            )
        if not request.wait_ms:
            reply = await self._requests.last_add_confirmed(request, self._proofs)
            return self._audit_if_refused(request.ledger_id, reply)
        hurried = self._guard.polls.begin(self._peer)
        try:
            reply = await self._requests.last_add_confirmed(request, self._proofs, hurried)
            return self._audit_if_refused(request.ledger_id, reply)
        finally:
            self._guard.polls.end(self._peer, hurried)

    async def _fencing(
        self, ledger_id: int, ask: Callable[[], Awaitable[Reply]], refusal: Callable[[str], Reply]
    ) -> Reply:
        """Fences a ledger. Audits the fence only once, because later reads of the same recovery find the ledger already
        fenced."""
        if why := self._may_not(Right.FENCE, ledger_id):
            return refusal(why)
        before = self._requests.bookie.is_fenced(ledger_id)
        reply = await ask()
        if reply.status is Status.UNAUTHORIZED:
            self._who.record_audit(Act.REFUSED, f"fence: {reply.status} {reply.detail}", ledger_id=ledger_id)
        elif not before and self._requests.bookie.is_fenced(ledger_id):
            self._who.record_audit(Act.FENCE, ledger_id=ledger_id)
        return reply

    def _counted(self, request: ReadRequest | LacRequest | HoldingsRequest, reply: AnyReply) -> AnyReply:
        self._requests.bookie.metrics.answered(_kind_of(request), reply.status)
        return reply

    def _audit_if_refused(self, ledger_id: int, reply: Reply) -> Reply:
        if reply.status is Status.UNAUTHORIZED:
            self._who.record_audit(Act.REFUSED, f"read: {reply.detail}", ledger_id=ledger_id)
        return reply

    def _may_not(self, right: Right, ledger_id: int | None = None) -> str:
        if why := self._who.may_not(right):
            self._who.record_audit(Act.REFUSED, why, ledger_id=ledger_id)
        return why

    async def _of_others(self, ledger_id: int) -> tuple[Status, str] | None:
        """Returns a refusal if the client is restricted to one owner's ledgers and this ledger belongs to another."""
        if not self._who.owner:
            return None
        assert self._requests.owners is not None
        why = (await self._requests.owners.refused([ledger_id], self._who.owner)).get(ledger_id)
        if why:
            self._who.record_audit(Act.REFUSED, why[1], ledger_id=ledger_id)
        return why

    async def _room(self) -> None:
        """Waits until the client has taken the bytes sent to it (back-pressure)."""
        while not self._connection.is_writable and not self._connection.is_lost:
            self._writable.clear()
            await self._writable.wait()

    async def _answer_large(
        self, kind: FrameKind, call: int, bytes_max: int, answer: Callable[[], Awaitable[Sequence[Part]]]
    ) -> int:
        """Builds and sends a reply once there is memory for it. The reply counts against the memory limit until the
        kernel has accepted it. Returns the size of the reply."""
        await self._room()
        reserved = await self._untaken.reserve(bytes_max)
        try:
            body = await answer()
        except BaseException:
            self._untaken.release(reserved)
            raise
        self._connection.send(kind, call, body)
        size_bytes = sum(map(len, body))
        self._untaken.sent(reserved, size_bytes)
        return size_bytes

    def _turn_away(self, kind: FrameKind, call: int, status: Status, why: str) -> None:
        if kind in REQUESTS:
            self._requests.bookie.metrics.answered(REQUESTS[kind], status)
        self._refuse(call, why)

    def _refuse(self, call: int, why: str) -> None:
        self._connection.send(FrameKind.REFUSED, call, [why.encode()])


def _kind_of(request: ReadRequest | LacRequest | HoldingsRequest) -> RequestKind:
    if isinstance(request, HoldingsRequest):
        return RequestKind.HOLDINGS
    if request.fence:
        return RequestKind.FENCE
    return RequestKind.READ if isinstance(request, ReadRequest) else RequestKind.LAST_ADD_CONFIRMED
