"""The blocking writers of ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from .. import aio
from ..entry import Payload, as_bytes
from ..loop_thread import LoopThread
from ..writing.checked_batch import CheckedBatch, checked
from .back_pressure import BackPressure, bytes_of
from .bulk_writer import BulkWriter
from .handle import BlockingHandle, closed_once
from .twin_calls import asking, told_as, waiting_for


class WriteHandle(BulkWriter[aio.WriteHandle, bytes], BlockingHandle[aio.WriteHandle]):
    """The only writer of a ledger. Created by `LedgerClient.create_ledger`; may be used from several threads.

    Appends are confirmed strictly in entry order (rule W2). When the writer fails (`LedgerFenced`, `NotEnoughBookies`,
    …) every unconfirmed append fails with that error, and so do `flush` and `close`. Such an append may or may not be
    in the ledger; opening the ledger with recovery settles which.
    """

    def __init__(self, thread: LoopThread, handle: aio.WriteHandle) -> None:
        BulkWriter.__init__(self, thread, handle, handle._cluster.turn, next_entry=0)
        self._entry_bytes_max = handle.entry_bytes_max

    @told_as(aio.WriteHandle.append)
    def append(self, payload: Payload) -> int:
        self._thread.check_may_wait()
        return self.append_async(payload).result()

    @told_as(aio.WriteHandle.append_async)
    def append_async(self, payload: Payload) -> Future[int]:
        if type(payload) is not bytes or len(payload) > self._entry_bytes_max:
            payload = checked(payload, self._entry_bytes_max)
        return self._append_one(payload, len(payload))

    @told_as(aio.WriteHandle.append_batch)
    def append_batch(self, payloads: Sequence[Payload]) -> range:
        self._thread.check_may_wait()
        return self._append_all(CheckedBatch(payloads, self._entry_bytes_max))

    @told_as(aio.WriteHandle.append_nowait)
    def append_nowait(self, payload: Payload) -> int:
        taken = checked(payload, self._entry_bytes_max)
        return self._append_now(taken, len(taken), f"ledger {self.ledger_id}")

    confirmed = waiting_for(aio.WriteHandle.confirmed)
    flush = waiting_for(aio.WriteHandle.flush)
    force = waiting_for(aio.WriteHandle.force)

    @told_as(aio.WriteHandle.close)
    def close(self) -> None:
        with closed_once(self._twin):
            self._run(self._twin.close)


class AdvancedWriteHandle(BlockingHandle[aio.AdvancedWriteHandle]):
    """The only writer of a ledger, with ids from the caller, in any order.

    Created by `LedgerClient.create_ledger_adv`; may be used from several threads. An entry is sent when every entry
    before it has been appended, and waits in memory until then. Ends, and leaves unconfirmed entries, as `WriteHandle`
    does.
    """

    def __init__(self, thread: LoopThread, handle: aio.AdvancedWriteHandle) -> None:
        super().__init__(thread, handle)
        self._bytes_max = handle.pending_bytes_max
        self._room = BackPressure(thread)
        thread.call_soon(self._listen)

    @property
    def first_gap(self) -> int:
        """The lowest entry id that has not been appended yet: no entry from there on can be confirmed."""
        return self._twin.first_gap

    append = waiting_for(aio.AdvancedWriteHandle.append)

    @told_as(aio.AdvancedWriteHandle.append_async)
    def append_async(self, entry_id: int, payload: Payload) -> Future[int]:
        payload = as_bytes(payload)
        self._thread.check_process()
        with self._room.lock:
            self._room.wait_while_full(lambda: self._may_take(entry_id))
            self._room.enter(bytes_of(payload))
            return self._thread.submit(self._append(entry_id, payload))

    append_batch = waiting_for(aio.AdvancedWriteHandle.append_batch)
    append_nowait = asking(aio.AdvancedWriteHandle.append_nowait)
    confirmed = waiting_for(aio.AdvancedWriteHandle.confirmed)
    flush = waiting_for(aio.AdvancedWriteHandle.flush)
    force = waiting_for(aio.AdvancedWriteHandle.force)

    @told_as(aio.AdvancedWriteHandle.close)
    def close(self) -> None:
        with closed_once(self._twin):
            self._run(self._twin.close)

    def _may_take(self, entry_id: int) -> bool:
        if self._twin.has_ended or entry_id == self.first_gap:
            return True
        return self._room.handed_bytes + self._twin.unconfirmed_bytes < self._bytes_max

    def _listen(self) -> None:
        self._twin.on_progress = self._room.wake

    async def _append(self, entry_id: int, payload: bytes) -> int:
        try:
            future = await self._twin.append_async(entry_id, payload)
        finally:
            self._room.leave(bytes_of(payload))
        return await future
