"""The writer of a ledger: appends, flushes, closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from metadata.audit import DONE, Act, record_audit
from metadata.errors import MetadataError
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore

from ..entry import ENTRY_OVERHEAD_BYTES, Payload
from ..errors import LedgerClosed, LedgerError, LedgerFenced, WriterFull
from ..protocol.phase import is_closed_at
from .append_shell import PipelineShell
from .checked_batch import CheckedBatch
from .slow_wait_warning import warn_when_slow, why_closing_waits

log = logging.getLogger(__name__)


async def closed_by_others(
    ledgers: LedgerStore, record: LedgerRecord, last_entry: int
) -> LedgerRecord | None:
    """Returns the ledger's record if the ledger is closed at exactly this entry; None if it is not, or if that is
    unknown."""
    try:
        found = await ledgers.read_again(record)
    except MetadataError as unknown:
        log.info(
            "ledger %d: it is unknown whether a recovery has closed it: %s",
            record.ledger_id,
            unknown,
            extra={"ledger": record.ledger_id},
        )
        return None
    return found.record if found is not None and is_closed_at(last_entry, found.record) else None


class WriteHandle(PipelineShell):
    """The only writer of a ledger. Created by `LedgerClient.create_ledger`; belongs to its event loop.

    Appends are confirmed strictly in entry order (rule W2). When the writer fails (`LedgerFenced`, `NotEnoughBookies`,
    …) every unconfirmed append fails with that error, and so do `flush` and `close`. Entries of these appends may or
    may not be in the ledger; opening it with recovery settles which of them are.
    """

    def __repr__(self) -> str:
        return f"<WriteHandle of ledger {self.ledger_id}: {self.state}, confirmed through {self.last_add_confirmed}>"

    @property
    def has_room(self) -> bool:
        """Whether an append would proceed without waiting now."""
        if self._room_bytes <= 0:
            if self.is_full:
                return False
            self._count_room()
        return True

    async def append(self, payload: Payload) -> int:
        """Appends one entry; returns its id when an ack quorum has it on disk (with deferred sync: in its logs).

        Raises EntryTooLarge (the writer remains usable), or the error that ended the writer; in the latter case the
        entry may or may not be in the ledger. Waits as `append_async` does. A bytearray or memoryview is copied.
        """
        return await (await self.append_async(payload))

    async def append_async(self, payload: Payload) -> asyncio.Future[int]:
        """Accepts one entry; returns a future of its id. Ids are assigned in the order of the calls.

        Waits only while `pending_bytes_max` bytes are unconfirmed, or a bookie is too far behind (rule W6). Raises
        EntryTooLarge (the writer remains usable), or the error that has ended the writer. If the writer ends later, the
        future, `flush` and `close` raise its error. In a callback of a blocking client's future it raises WouldDeadlock
        if it would have to wait.
        """
        self.check_process()
        if self._room_bytes <= 0:
            await self._until_room()
            self.raise_if_ended()
        future: asyncio.Future[int] = asyncio.Future(loop=self._loop)
        waiting = self._waiting
        if (
            type(payload) is bytes
            and len(payload) <= self.entry_bytes_max
            and self._will_take
            and not waiting.head
        ):
            size = len(payload)  # the same as `submit`, inlined to save a call
            self._room_bytes -= size + ENTRY_OVERHEAD_BYTES
            waiting.size_bytes += size
            waiting.payloads.append(payload)
            self._answers.last_run.append(future)
        else:
            self.submit(payload, future)
        return future

    async def append_batch(self, payloads: Sequence[Payload]) -> range:
        """Appends consecutive entries; returns their ids when all are confirmed, as for `append`.

        Before accepting the entries, waits as `append_async` does. Batches are appended in the order of the calls.
        Raises EntryTooLarge if one of the entries is too large, in which case none was accepted; otherwise raises as
        `append` does.
        """
        self.check_process()
        checked = CheckedBatch(payloads, self.entry_bytes_max)
        await self._until_room()
        if not checked.payloads:
            return range(self._answers.next_entry, self._answers.next_entry)
        future: asyncio.Future[int] = self._loop.create_future()
        first = self.submit_batch(checked, future)
        return range(first, await future + 1)

    def append_nowait(self, payload: Payload) -> int:
        """Accepts one entry and returns its id at once; use `confirmed` to wait until it is on disk.

        Raises WriterFull instead of waiting for room, or EntryTooLarge (the writer remains usable after either error),
        or the error that ended the writer.
        """
        self.check_process()
        if not self.has_room:
            raise WriterFull(f"ledger {self.ledger_id}", self.pending_bytes_max)
        self.submit(payload, None)
        return self._answers.next_entry - 1

    async def confirmed(self, through: int) -> None:
        """Waits until every appended entry through this id is confirmed, as for `append`.

        Raises the error that ended the writer before that, or ValueError for an entry that was not appended.
        """
        self.check_process()
        if through >= self._answers.next_entry:
            self.raise_if_ended()
        if not 0 <= through < self._answers.next_entry:
            raise ValueError(f"entry {through} of ledger {self.ledger_id} was not appended")
        if through <= self._last_add_answered:
            return
        self._raise_if_failed()
        waiting: asyncio.Future[int] = self._loop.create_future()
        self._answers.flush(waiting, through)
        await waiting

    async def force(self) -> None:
        """Waits until every append so far is on disk and confirmed; raises the error that ended the writer, if there is
        one.

        Without deferred sync it does the same as `flush`.
        """
        self.check_process()
        if self._will_take:
            self._take_waiting_or_end()
        self._raise_if_failed()
        if self.last_add_confirmed == self._machine.last_add_pushed:
            return
        forced: asyncio.Future[int] = self._loop.create_future()
        self._clock.begins()
        self._answers.force(self._machine.last_add_pushed, forced)
        self._perform(self._machine.force())
        self._clock.start()
        await forced

    async def close(self) -> None:
        """Flushes, then closes the ledger at its last confirmed entry (rule C1). May be called repeatedly.

        Raises the error that ended the writer; in that case this call has not closed the ledger, and opening it with
        recovery settles its end. Does not raise if the ledger was already closed at exactly the last confirmed entry.
        """
        self.check_process()
        self._closing, self._room_bytes = True, 0
        with warn_when_slow(self._why_closing_waits):
            with suppress(LedgerError):  # the error that ended the writer is raised below
                await (self.force() if self._deferred_sync else self.flush())
            self._perform(self._machine.close())  # repeated calls close the ledger only once
            error = await asyncio.shield(self._finished)
        self._audit_close(error)
        await self._let_go()
        if error is not None and not await self._was_closed_by_others(error):
            raise error

    def _audit_close(self, error: LedgerError | None) -> None:
        if not self._is_close_audited:
            self._is_close_audited = True
            last = self.last_add_confirmed
            outcome = DONE if error is None else str(error)
            record_audit(Act.CLOSE, outcome, who=self._cluster.who, ledger_id=self.ledger_id, last_entry=last)

    def _why_closing_waits(self) -> str:
        unconfirmed = self._machine.last_add_pushed - self.last_add_confirmed + self._waiting.entries
        return why_closing_waits(self.ledger_id, unconfirmed, self._config.append_quorum_seconds_max)

    async def _was_closed_by_others(self, error: LedgerError) -> bool:
        """Returns whether an idle writer was fenced by a recovery that closed the ledger at its LAC (rule C1)."""
        if not isinstance(error, LedgerFenced) or self._machine.last_add_pushed > self.last_add_confirmed:
            return False
        closed = await closed_by_others(self._cluster.ledgers, self.record, self.last_add_confirmed)
        self._machine.record = closed or self._machine.record
        return closed is not None

    async def abandon(self) -> None:
        """Ends the writer without closing the ledger, as a crash would; unconfirmed appends fail."""
        self.check_process()
        self._closing, self._room_bytes = True, 0
        self._perform(self._machine.fail(LedgerClosed(self.ledger_id, "its writer was abandoned")))
        await self._let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the ledger, even after an error in the block: confirmed entries remain readable."""
        if isinstance(error, LedgerError) and self._finished.done():
            await self._let_go()  # the block already raises the error that ended the writer
        else:
            await self.close()
