"""Writing to a ledger in ordinary code: appends are handed to the loop's thread in bulk.

While the loop is busy, what is appended gathers and becomes one batch. Callbacks of the futures run on
the loop's thread: there an append is taken in while there is room, and nothing may wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures._base import FINISHED
from contextlib import suppress

from bookie.wire import ENTRY_BYTES_MAX

from .. import aio
from ..entry import ENTRY_OVERHEAD_BYTES, check_is_bytes
from ..errors import EntryTooLarge, LedgerError
from ..loop_thread import LoopThread
from .handle import BlockingHandle


class Room:
    """How much callers have handed to the loop's thread that it has not taken in: bounded in bytes.

    Whoever hands over holds `changed`, the condition's lock, from `wait_while_full` to `enter`.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self.changed = threading.Condition()
        self.handed_bytes = 0

    def wait_while_full(self, is_full: Callable[[], bool]) -> None:
        """Raises ClientClosed, and WouldDeadlock instead of waiting on the loop's thread."""
        self._thread.check_open()
        while is_full():
            self._thread.check_may_wait()
            self.changed.wait()
            self._thread.check_open()

    def enter(self, payload: bytes) -> None:
        """An entry is on its way to the loop's thread."""
        self.handed_bytes += bytes_of(payload)

    def leave(self, count: int) -> None:
        """So many bytes were taken in there."""
        with self.changed:
            self.handed_bytes -= count
            self.changed.notify_all()

    def wake(self) -> None:
        """Something else that callers wait for has changed."""
        with self.changed:
            self.changed.notify_all()


def bytes_of(payload: bytes) -> int:
    """What an entry counts until it is confirmed."""
    return len(payload) + ENTRY_OVERHEAD_BYTES


class AppendResult(Future[int]):
    """Of one append. In a child that is forked before it is done nobody completes it: asking it raises ClientForked."""

    def __init__(self, thread: LoopThread) -> None:
        super().__init__()
        self._thread = thread

    def result(self, timeout: float | None = None) -> int:
        """See `Future.result`."""
        self._check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Future.exception`."""
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        if self._state != FINISHED:  # without the lock, whose holder may not be in this process
            self._thread.check_process()


class WriteHandle(BlockingHandle[aio.WriteHandle]):
    """The one writer of a ledger; see `ledgers.writing.write_handle.WriteHandle` for what it promises."""

    def __init__(self, thread: LoopThread, handle: aio.WriteHandle) -> None:
        super().__init__(thread, handle)
        self._bytes_max = handle._config.pending_bytes_max
        self._room = Room(thread)
        self._handed: deque[tuple[bytes, Future[int]]] = deque()
        self._is_taking_due = False
        thread.call_soon(self._listen)

    def append(self, payload: bytes) -> int:
        """Appends one entry; returns its id when the ack quorum has it on disk (with deferred sync: in its logs)."""
        self._thread.check_may_wait()
        return self.append_async(payload).result()

    def append_async(self, payload: bytes) -> Future[int]:
        """Takes one entry in; returns the future of its id. Ids follow the order of these calls.

        Waits while `pending_bytes_max` are unconfirmed. Raises EntryTooLarge (the writer goes on), or what
        has ended the writer; what ends it later is the future's error, and that of `flush` and `close`.
        Callbacks of the future may append too; where that would have to wait it raises WouldDeadlock.
        """
        check_is_bytes(payload)
        if len(payload) > ENTRY_BYTES_MAX:
            raise EntryTooLarge(len(payload), ENTRY_BYTES_MAX)
        self._thread.check_process()
        future = AppendResult(self._thread)
        with self._room.changed:
            self._room.wait_while_full(self._is_full)
            if self._handle.failure is not None:
                raise self._handle.failure
            if not self._is_taking_due:
                self._thread.call_soon(self._take_handed)
                self._is_taking_due = True
            self._handed.append((payload, future))
            self._room.enter(payload)
        return future

    def flush(self) -> None:
        """Waits for all appends so far; raises what ended the writer, naming the first unconfirmed entry."""
        self._thread.run(self._flush())

    def force(self) -> None:
        """Waits until all appends so far are on disk and confirmed; without deferred sync as `flush`."""
        self._thread.run(self._force())

    def close(self) -> None:
        """Flushes and closes the ledger at its last confirmed entry; raises what ended the writer."""
        self._thread.run(self._close())

    def _is_full(self) -> bool:
        if self._handle.has_ended:
            return False
        full = self._room.handed_bytes + self._handle.pending_bytes >= self._bytes_max
        return full or self._handle.is_behind

    # --- on the loop's thread -------------------------------------------------------------------

    def _listen(self) -> None:
        self._handle.on_progress = self._room.wake

    def _take_handed(self) -> None:
        with self._room.changed:
            handed, self._handed = self._handed, deque()
            self._is_taking_due = False
        taken_bytes = 0
        for payload, future in handed:  # without the lock: a failed future's callbacks run here
            taken_bytes += bytes_of(payload)
            try:
                self._handle.submit(payload, future)
            except LedgerError as error:
                with suppress(InvalidStateError):  # cancelled in another thread at this moment
                    future.set_exception(error)
        self._room.leave(taken_bytes)

    async def _flush(self) -> None:
        self._take_handed()
        await self._handle.flush()

    async def _force(self) -> None:
        self._take_handed()
        await self._handle.force()

    async def _close(self) -> None:
        self._take_handed()
        await self._handle.close()


class AdvancedWriteHandle(BlockingHandle[aio.AdvancedWriteHandle]):
    """A writer with ids from the caller; see `ledgers.writing.advanced_write_handle` for what it promises."""

    def __init__(self, thread: LoopThread, handle: aio.AdvancedWriteHandle, pending_bytes_max: int) -> None:
        super().__init__(thread, handle)
        self._bytes_max = pending_bytes_max
        self._room = Room(thread)
        thread.call_soon(self._listen)

    @property
    def first_gap(self) -> int:
        """The lowest entry id that has not been appended yet: nothing from there on can be confirmed."""
        return self._handle.first_gap

    def append(self, entry_id: int, payload: bytes) -> int:
        """Appends one entry; returns its id when it and all before it are confirmed."""
        return self._thread.run(self._handle.append(entry_id, payload))

    def append_async(self, entry_id: int, payload: bytes) -> Future[int]:
        """Takes one entry in; returns the future of its id, or of what is wrong with it.

        Waits while `pending_bytes_max` are unconfirmed or wait for a gap to be filled; the entry that fills the
        gap is handed over at once. Callbacks as for `WriteHandle.append_async`.
        """
        check_is_bytes(payload)
        self._thread.check_process()
        with self._room.changed:
            self._room.wait_while_full(lambda: self._is_full and entry_id != self.first_gap)
            self._room.enter(payload)
            return self._thread.submit(self._append(entry_id, payload))

    def flush(self) -> None:
        """Waits for every entry before the first gap; raises what ended the writer."""
        self._thread.run(self._handle.flush())

    def force(self) -> None:
        """Waits until every entry before the first gap is on disk and confirmed."""
        self._thread.run(self._handle.force())

    def close(self) -> None:
        """Closes the ledger before the first gap; entries behind a gap fail with LedgerClosed."""
        self._thread.run(self._handle.close())

    @property
    def _is_full(self) -> bool:
        if self._handle.has_ended:
            return False
        return self._room.handed_bytes + self._handle.unconfirmed_bytes >= self._bytes_max

    def _listen(self) -> None:
        self._handle.on_progress = self._room.wake

    async def _append(self, entry_id: int, payload: bytes) -> int:
        try:
            future = await self._handle.append_async(entry_id, payload)
        finally:
            self._room.leave(bytes_of(payload))
        return await future
