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


class WriteHandle(BulkWriter[aio.WriteHandle, bytes], BlockingHandle[aio.WriteHandle]):
    """The one writer of a ledger. Made by `LedgerClient.create_ledger`; may be used from several threads.

    Appends are confirmed strictly in entry order (rule W2). When the writer fails (`LedgerFenced`,
    `NotEnoughBookies`, …) every unconfirmed append fails with that error, and so do `flush` and
    `close`; such an append may or may not be in the ledger, which opening it with recovery settles.
    """

    def __init__(self, thread: LoopThread, handle: aio.WriteHandle) -> None:
        BulkWriter.__init__(self, thread, handle, handle._cluster.turn, next_entry=0)
        self._entry_bytes_max = handle.entry_bytes_max

    def append(self, payload: Payload) -> int:
        """Appends one entry; returns its id when an ack quorum has it on disk (with deferred sync: in its logs).

        Raises EntryTooLarge (the writer goes on), or what ended the writer; then the entry may or
        may not be in the ledger. Waits as `append_async` does. A bytearray or memoryview is copied.
        """
        self._thread.check_may_wait()
        return self.append_async(payload).result()

    def append_async(self, payload: Payload) -> Future[int]:
        """Takes one entry in; returns the future of its id. Ids follow the order of these calls.

        Waits while `pending_bytes_max` are unconfirmed. Raises EntryTooLarge (the writer goes on), or what
        has ended the writer; what ends it later is the future's error, and that of `flush` and `close`.
        Callbacks of the future may append too; where that would have to wait it raises WouldDeadlock.
        """
        if type(payload) is not bytes or len(payload) > self._entry_bytes_max:
            payload = checked(payload, self._entry_bytes_max)
        return self._append_one(payload, len(payload))

    def append_batch(self, payloads: Sequence[Payload]) -> range:
        """Appends consecutive entries; returns their ids when all are confirmed, as for `append`.

        Raises EntryTooLarge if one of them is: then none was taken in.
        """
        self._thread.check_may_wait()
        return self._append_all(CheckedBatch(payloads, self._entry_bytes_max))

    def append_nowait(self, payload: Payload) -> int:
        """Takes one entry in and returns its id at once; `confirmed` tells when it is on disk.

        Raises WriterFull instead of waiting for room, else as `append_async`.
        """
        taken = checked(payload, self._entry_bytes_max)
        return self._append_now(taken, len(taken), f"ledger {self.ledger_id}")

    def confirmed(self, through: int) -> None:
        """Waits until every appended entry through this id is confirmed.

        Raises what ended the writer before, ValueError for an entry that was not appended.
        """
        self._run(lambda: self._handle.confirmed(through))

    def flush(self) -> None:
        """Waits for all appends so far; raises what ended the writer, naming the first unconfirmed entry."""
        self._run(self._handle.flush)

    def force(self) -> None:
        """Waits until all appends so far are on disk and confirmed; without deferred sync as `flush`."""
        self._run(self._handle.force)

    def close(self) -> None:
        """Flushes, then closes the ledger at its last confirmed entry (rule C1). Safe to repeat.

        Raises what ended the writer: this call has not closed the ledger then, and opening it with recovery settles
        its end. Does not raise if that was done already, at the very entry confirmed last.
        """
        with closed_once(self._handle):
            self._run(self._handle.close)


class AdvancedWriteHandle(BlockingHandle[aio.AdvancedWriteHandle]):
    """The one writer of a ledger, with ids from the caller, in any order. Made by `LedgerClient.create_ledger_adv`.

    May be used from several threads. An entry is sent when every entry before it has been appended, and waits in
    memory until then. Ends, and leaves unconfirmed entries, as `WriteHandle` does.
    """

    def __init__(self, thread: LoopThread, handle: aio.AdvancedWriteHandle) -> None:
        super().__init__(thread, handle)
        self._bytes_max = handle.pending_bytes_max
        self._room = BackPressure(thread)
        thread.call_soon(self._listen)

    @property
    def first_gap(self) -> int:
        """The lowest entry id that has not been appended yet: nothing from there on can be confirmed."""
        return self._handle.first_gap

    def append(self, entry_id: int, payload: Payload) -> int:
        """Appends one entry; returns its id when it and all before it are confirmed.

        Raises DuplicateEntry or EntryTooLarge (the writer goes on), or what ended the writer.
        """
        return self._thread.run(self._handle.append(entry_id, payload))

    def append_async(self, entry_id: int, payload: Payload) -> Future[int]:
        """Takes one entry in; returns a future of its id, which also reports a bad id.

        Waits while `pending_bytes_max` are unconfirmed or wait for a gap to be filled; the entry that fills the
        gap is handed over at once. Callbacks as for `WriteHandle.append_async`.
        """
        payload = as_bytes(payload)
        self._thread.check_process()
        with self._room.lock:
            self._room.wait_while_full(lambda: self._may_take(entry_id))
            self._room.enter(bytes_of(payload))
            return self._thread.submit(self._append(entry_id, payload))

    def append_batch(self, entries: Sequence[tuple[int, Payload]]) -> list[int]:
        """Appends entries, each with its id; returns the ids when these and all before them are confirmed.

        Raises as `append`; entries before the bad one were appended.
        """
        return self._thread.run(self._handle.append_batch(entries))

    def append_nowait(self, entry_id: int, payload: Payload) -> None:
        """Takes one entry in; `confirmed` tells when it is on disk. Raises WriterFull instead of waiting for room."""
        self._thread.run(self._append_nowait(entry_id, payload))

    def confirmed(self, through: int) -> None:
        """Waits until every entry through this id is confirmed. Raises ValueError where one of them is missing yet."""
        self._thread.run(self._handle.confirmed(through))

    def flush(self) -> None:
        """Waits for every entry before the first gap; raises what ended the writer."""
        self._thread.run(self._handle.flush())

    def force(self) -> None:
        """Waits until every entry before the first gap is on disk and confirmed; raises what ended the writer."""
        self._thread.run(self._handle.force())

    def close(self) -> None:
        """Closes the ledger before the first gap; entries behind a gap fail with LedgerClosed."""
        with closed_once(self._handle):
            self._thread.run(self._handle.close())

    def _may_take(self, entry_id: int) -> bool:
        if self._handle.has_ended or entry_id == self.first_gap:
            return True
        return self._room.handed_bytes + self._handle.unconfirmed_bytes < self._bytes_max

    def _listen(self) -> None:
        self._handle.on_progress = self._room.wake

    async def _append_nowait(self, entry_id: int, payload: Payload) -> None:
        self._handle.append_nowait(entry_id, payload)

    async def _append(self, entry_id: int, payload: bytes) -> int:
        try:
            future = await self._handle.append_async(entry_id, payload)
        finally:
            self._room.leave(bytes_of(payload))
        return await future
