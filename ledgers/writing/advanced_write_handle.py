"""Appends entries whose ids the caller chooses, in any order.

An entry is sent when every entry before it has been appended; until then it waits here, in memory. Bookies and recovery
therefore only ever see entries without gaps. A gap that is never filled limits where the ledger can end, because an
entry is confirmed only after all entries before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from metadata.records.ledger_record import LedgerRecord

from ..entry import ENTRY_OVERHEAD_BYTES, Payload
from ..errors import DuplicateEntry, LedgerClosed, WriterFull
from .checked_batch import checked
from .write_handle import WriteHandle


class AdvancedWriteHandle:
    """The only writer of a ledger whose entry ids are chosen by the caller, in any order.

    Created by `LedgerClient.create_ledger_adv`; belongs to its event loop. An entry is sent when every entry before it
    has been appended, and waits in memory until then. This writer ends in the same way as a `WriteHandle`, with the
    same consequences for unconfirmed entries.
    """

    def __init__(self, writer: WriteHandle, pending_bytes_max: int) -> None:
        self._writer = writer
        self.entry_bytes_max = writer.entry_bytes_max
        self.pending_bytes_max = pending_bytes_max
        self._next = 0
        self._early: dict[int, tuple[bytes, asyncio.Future[int] | None]] = {}
        self._early_bytes = 0
        self._room = asyncio.Event()
        self._closing = False
        self.on_progress: Callable[[], None] = lambda: None
        """Called when entries have been confirmed, or a gap has been filled."""
        writer.on_progress = self._writer_moved

    def __repr__(self) -> str:
        state = f"{self.state}, confirmed through {self.last_add_confirmed}"
        return f"<AdvancedWriteHandle of ledger {self.ledger_id}: {state}>"

    @property
    def state(self) -> str:
        """ "open", "closing", "closed", or the reason why this writer ended, as text."""
        return self._writer.state

    @property
    def ledger_id(self) -> int:
        """The permanent id of the ledger."""
        return self._writer.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this handle last read or wrote it."""
        return self._writer.record

    @property
    def last_add_confirmed(self) -> int:
        """The last entry that this handle knows to be confirmed together with all entries before it; −1 if there is
        none."""
        return self._writer.last_add_confirmed

    @property
    def has_ended(self) -> bool:
        """Whether the writer has stopped accepting entries."""
        return self._writer.has_ended

    @property
    def first_gap(self) -> int:
        """The lowest entry id that has not been appended yet. Until this entry is appended, neither it nor any later
        entry can be confirmed."""
        return self._next

    async def append(self, entry_id: int, payload: Payload) -> int:
        """Appends one entry; returns its id when it and all entries before it are confirmed.

        Raises DuplicateEntry or EntryTooLarge (the writer remains usable), or the error that ended the writer.
        """
        return await (await self.append_async(entry_id, payload))

    async def append_async(self, entry_id: int, payload: Payload) -> asyncio.Future[int]:
        """Accepts one entry; returns a future of its id.

        Waits while `pending_bytes_max` bytes are unconfirmed, including those of entries that wait for a gap to be
        filled. The entry that fills the gap waits only until earlier entries are confirmed, never for those after it.
        Raises as `append` does; in a blocking client the error is set on the future instead, unless the client is
        closed.
        """
        taken = self._checked(entry_id, payload)
        while self._must_wait(entry_id):
            self._room.clear()
            await self._room.wait()
        self._refuse_duplicate(entry_id)  # another call may have appended it while this one waited
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._take(entry_id, taken, future)
        return future

    async def append_batch(self, entries: Sequence[tuple[int, Payload]]) -> list[int]:
        """Appends entries, each with its id; returns the ids when these entries and all entries before them are
        confirmed.

        Raises as `append` does; entries before the one that caused the error were appended.
        """
        futures = [await self.append_async(entry_id, payload) for entry_id, payload in entries]
        return [await future for future in futures]

    def append_nowait(self, entry_id: int, payload: Payload) -> None:
        """Accepts one entry; use `confirmed` to wait until it is on disk. Raises WriterFull instead of waiting for
        room."""
        taken = self._checked(entry_id, payload)
        if self._must_wait(entry_id):
            raise WriterFull(f"ledger {self.ledger_id}", self.pending_bytes_max)
        self._take(entry_id, taken, None)

    async def confirmed(self, through: int) -> None:
        """Waits until every entry through this id is confirmed. Raises ValueError if one of them has not been appended
        yet."""
        await self._writer.confirmed(through)

    async def flush(self) -> None:
        """Waits until every entry before the first gap is confirmed; raises the error that ended the writer."""
        await self._writer.flush()

    async def force(self) -> None:
        """Waits until every entry before the first gap is on disk and confirmed; raises the error that ended the
        writer."""
        await self._writer.force()

    async def close(self) -> None:
        """Closes the ledger before the first gap; appends of entries after the gap fail with LedgerClosed."""
        self._writer.check_process()
        self._closing = True
        self._fail_early()
        self._room.set()
        await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------------

    def _checked(self, entry_id: int, payload: Payload) -> bytes:
        taken = checked(payload, self.entry_bytes_max)
        self._writer.check_process()
        self._refuse_duplicate(entry_id)
        return taken

    def _take(self, entry_id: int, payload: bytes, future: asyncio.Future[int] | None) -> None:
        if self._writer.failure is not None:
            raise self._writer.failure
        if self._closing or self._writer.has_ended:
            raise LedgerClosed(self.ledger_id, "this writer was closed")
        self._early[entry_id] = (payload, future)
        self._early_bytes += len(payload) + ENTRY_OVERHEAD_BYTES
        self._send_due_entries()

    def _writer_moved(self) -> None:
        if self._writer.has_ended:  # also the case if the client was closed
            self._fail_early()
        self._room.set()
        self.on_progress()

    def _fail_early(self) -> None:
        why = f"entry {self._next} was never appended, so this entry cannot be confirmed"
        error = self._writer.failure or LedgerClosed(self.ledger_id, why)
        early, self._early, self._early_bytes = self._early, {}, 0
        for _, future in early.values():
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # marks the exception as retrieved, so callers need not await the future

    @property
    def unconfirmed_bytes(self) -> int:
        """Bytes accepted but not confirmed, including those of entries after a gap."""
        return self._writer.pending_bytes + self._early_bytes

    def _must_wait(self, entry_id: int) -> bool:
        if self._writer.has_ended:
            return False
        if self._writer.is_behind:
            return True
        if self.unconfirmed_bytes < self.pending_bytes_max:
            return False
        return entry_id != self._next or self._writer.pending_bytes > 0

    def _refuse_duplicate(self, entry_id: int) -> None:
        if type(entry_id) is not int or not 0 <= entry_id < 2**63:
            raise ValueError(f"{entry_id} cannot be an entry id")
        if entry_id < self._next or entry_id in self._early:
            raise DuplicateEntry(self.ledger_id, entry_id)

    def _send_due_entries(self) -> None:
        while self._next in self._early:
            payload, future = self._early[self._next]
            self._writer.submit(payload, future)  # raises the error that ended the writer
            del self._early[self._next]
            self._early_bytes -= len(payload) + ENTRY_OVERHEAD_BYTES
            self._next += 1
            self._room.set()  # the call that fills the next gap may proceed
        self.on_progress()
