"""Writes a segment with double buffering: one buffer fills while the other is sent to the acceptors."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..edits import EditOp, check_batch, encode_op
from ..edits.errors import EditLogError
from ..errors import BadRequest, JournalError, StreamClosed
from ..requests import SendEdits

if TYPE_CHECKING:
    from .loggers import LoggerSet

OUTPUT_BUFFER_BYTES = 512 * 1024
"""Bytes of edits that a stream buffers before a flush is due: the same as Hadoop's default."""

FLUSHES_UNDER_WAY_MAX = 64
"""Maximum number of batches sent but not confirmed. At this limit, `flush_async` waits."""


class EditsBuffer:
    """Frames of edits waiting to be flushed: complete, in order and without gaps."""

    def __init__(self, first_txid: int) -> None:
        self.first_txid = first_txid
        self.num_txns = 0
        self.size = 0
        self._parts: list[bytes] = []

    @property
    def next_txid(self) -> int:
        return self.first_txid + self.num_txns

    def add(self, records: bytes, num_txns: int) -> None:
        self._parts.append(records)
        self.num_txns += num_txns
        self.size += len(records)

    def request(self, segment_txid: int) -> SendEdits:
        """Returns the request to send to every acceptor."""
        return SendEdits(
            segment_txid=segment_txid,
            first_txid=self.first_txid,
            num_txns=self.num_txns,
            records=self._parts[0] if len(self._parts) == 1 else b"".join(self._parts),
            is_checked=True,
        )


class EditLogOutputStream:
    """The output stream of one segment. Belongs to its event loop.

    `write` fills a buffer; `set_ready_to_flush` swaps the buffers, so that later edits fill the other one; when `flush`
    returns, the swapped-out buffer is on the disks of a quorum. After a failed flush, the stream accepts no further
    edits, and only a recovery decides whether the unconfirmed edits are in the journal.
    """

    def __init__(
        self,
        loggers: LoggerSet,
        first_txid: int,
        layout_version: int,
        on_end: Callable[[EditLogOutputStream], None],
    ) -> None:
        self.first_txid = first_txid
        self.layout_version = layout_version
        self._loggers = loggers
        self._filling = EditsBuffer(first_txid)
        self._ready = EditsBuffer(first_txid)
        self._under_way: deque[asyncio.Future[int]] = deque()
        self._committed_txid = first_txid - 1
        self._failure: JournalError | None = None
        self._is_closed = False
        self._on_end = on_end

    @property
    def next_txid(self) -> int:
        """The txid that the next edit must have."""
        return self._filling.next_txid

    @property
    def committed_txid(self) -> int:
        """The last txid known to be on the disks of a quorum; initially the txid before the segment's first."""
        return self._committed_txid

    @property
    def is_in_doubt(self) -> bool:
        """Whether edits were sent that are not known to be on the disks of a quorum."""
        return self._ready.first_txid - 1 > self._committed_txid

    @property
    def buffered_bytes(self) -> int:
        """Bytes of edits written but not yet sent."""
        return self._filling.size + self._ready.size

    def write(self, op: EditOp) -> None:
        """Buffers one edit. Raises BadRequest if its txid is not the next one."""
        if op.txid != self.next_txid:
            raise BadRequest(f"txid {op.txid} cannot be written: the next txid is {self.next_txid}")
        self._add(encode_op(op, self.layout_version), 1)

    def write_raw(self, records: bytes, num_txns: int) -> None:
        """Buffers op frames unchanged. Raises BadRequest unless they are complete, undamaged and next in sequence."""
        try:
            check_batch(records, self.next_txid, num_txns)
        except EditLogError as error:
            raise BadRequest(f"these frames cannot be written: {error}") from error
        self._add(bytes(records), num_txns)

    def should_force_sync(self) -> bool:
        """Returns whether the buffer is full enough to flush."""
        return self._filling.size >= OUTPUT_BUFFER_BYTES

    def set_ready_to_flush(self) -> None:
        """Swaps the buffers. The buffer swapped out previously must already have been flushed."""
        self._check_open()
        if self._ready.num_txns:
            raise StreamClosed("the swapped-out buffer has not been flushed")
        self._ready, self._filling = self._filling, EditsBuffer(self._filling.next_txid)

    async def flush(self) -> int:
        """Waits until the swapped-out buffer is on the disks of a quorum. Returns the last txid that a quorum has.

        Raises QuorumFailed or QuorumTimeout; in that case, the stream accepts no further edits.
        """
        await self.flush_async()
        while self._under_way:
            await self._until_ended(self._under_way[0])
            self._check_open()
        return self._committed_txid

    async def flush_async(self) -> asyncio.Future[int]:
        """Sends the swapped-out buffer. Returns a future that completes when the buffer is on the disks of a quorum.
        Several flushes may be in flight at a time.

        Waits while FLUSHES_UNDER_WAY_MAX flushes are in flight, or while the queues of a majority of the acceptors are
        full.
        """
        self._hear_of_ended()
        self._check_open()
        while self._must_wait():
            await self._until_ended(self._under_way[0])
            self._check_open()
        batch, self._ready = self._ready, EditsBuffer(self._filling.first_txid)
        flush = self._sent(batch)
        self._under_way.append(flush)
        flush.add_done_callback(self._flushed)
        return flush

    def _must_wait(self) -> bool:
        under_way = len(self._under_way)
        return under_way >= FLUSHES_UNDER_WAY_MAX or (
            under_way > 0 and not self._loggers.has_room(self._ready.size)
        )

    async def close(self) -> None:
        """Closes the stream. All edits must have been flushed. The segment remains open until it is finalized."""
        if self._is_closed:
            return
        if self._failure is None and self._under_way:
            await self.flush()
        left = self._filling.num_txns + self._ready.num_txns
        self._end()
        if left and self._failure is None:
            raise StreamClosed(f"{left} transactions were written but not flushed: they are lost")

    async def abort(self) -> None:
        """Closes the stream and drops all edits that were not flushed."""
        self._end()
        for flush in list(self._under_way):
            flush.cancel()

    def report(self) -> str:
        """Returns a status report for operators."""
        return f"Writing segment beginning at txid {self.first_txid}. \n{self._loggers.report()}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.abort()

    def _add(self, records: bytes, num_txns: int) -> None:
        """Buffers frames that are known to be valid, because they were encoded or checked here. Acceptors in this
        process need not check them again."""
        self._check_open()
        self._filling.add(records, num_txns)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise StreamClosed("this stream was closed")

    def _sent(self, batch: EditsBuffer) -> asyncio.Future[int]:
        """Queues the batch for every acceptor."""
        if not batch.num_txns:
            return asyncio.create_task(self._after(list(self._under_way)))
        return self._loggers.send(batch.request(self.first_txid))

    async def _after(self, earlier: list[asyncio.Future[int]]) -> int:
        """Performs an empty flush: waits until the earlier flushes have ended, and returns their last txid."""
        for flush in earlier:
            await asyncio.shield(flush)
        return max((self._committed_txid, *(flush.result() for flush in earlier)))

    async def _until_ended(self, flush: asyncio.Future[int]) -> None:
        """Waits until a flush has ended, and records its outcome."""
        await asyncio.wait([flush])
        self._hear_of_ended()

    def _hear_of_ended(self) -> None:
        """Records the outcome of every flush that has ended, without waiting for the event loop to run the callbacks of
        those flushes."""
        while self._under_way and self._under_way[0].done():
            self._note(self._under_way.popleft())

    def _flushed(self, flush: asyncio.Future[int]) -> None:
        """Called when a flush has ended; records its outcome."""
        self._note(flush)
        self._hear_of_ended()

    def _note(self, flush: asyncio.Future[int]) -> None:
        """Records the outcome of a flush. Idempotent."""
        if flush.cancelled():
            self._fail(
                StreamClosed("a flush was cancelled: it is unknown whether its edits are in the journal")
            )
        elif (error := flush.exception()) is not None:
            self._fail(
                error if isinstance(error, JournalError) else StreamClosed(f"a flush failed: {error!r}")
            )
        else:
            self._committed_txid = max(self._committed_txid, flush.result())

    def _fail(self, error: JournalError) -> None:
        if self._failure is None:
            self._failure = error

    def _end(self) -> None:
        self._is_closed = True
        self._on_end(self)
