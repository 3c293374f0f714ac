"""The writer of a log: appends over ledgers that follow each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from ...errors import LedgerError, WriterFull
from ..record_batch import NewRecord
from .checked_records import CheckedRecords, checked_record
from .writer_shell import WriterShell

LEFT_OVER_SECONDS_MAX = 5.0
"""How long a writer that is closed waits for what it has begun: a ledger that is made, or deleted as none needs it."""


class LogWriter(WriterShell):
    """The one writer of a log. Made by `Log.writer`; belongs to its event loop.

    Records are confirmed strictly in order of their positions, which have no holes. When the writer fails (`LogFenced`,
    `NotEnoughBookies`, …) every unconfirmed append fails with that error, and so do `flush` and `close`; such a record
    may or may not be in the log, which the next writer settles. Payloads are bytes; `NewRecord` has a key, headers and
    a time of the application's beside its payload.
    """

    async def append(
        self,
        payload: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> int:
        """Appends one record; returns its position when an ack quorum has it on disk.

        Raises EntryTooLarge (the writer goes on), or what ended the writer. Waits as `append_async` does.
        """
        return await (await self.append_async(payload, key=key, headers=headers, event_time=event_time))

    async def append_async(
        self,
        payload: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> asyncio.Future[int]:
        """Takes one record in; returns the future of its position. Positions follow the order of these calls.

        Waits only while `pending_bytes_max` are unconfirmed, or a bookie is behind.
        """
        self.check_process()
        record, size = checked_record(payload, key, headers, event_time, self.entry_bytes_max)
        if self._room_bytes <= 0:
            await self._until_room()
        future: asyncio.Future[int] = self._loop.create_future()
        self.submit_each([record], size, [future])
        return future

    async def append_batch(self, records: Sequence[bytes | NewRecord]) -> range:
        """Appends consecutive records; returns their positions when all are confirmed, as for `append`.

        Waits before it takes them in as `append_async` does. Batches follow the order of these calls.
        """
        self.check_process()
        checked = CheckedRecords(records, self.entry_bytes_max)
        await self._until_room()
        if not checked.payloads:
            return range(self.next_position, self.next_position)
        future: asyncio.Future[int] = self._loop.create_future()
        first = self.submit_batch(checked, future)
        return range(first, await future + 1)

    def append_nowait(
        self,
        payload: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> int:
        """Takes one record in and returns its position at once; `confirmed` tells when it is on disk.

        Raises WriterFull instead of waiting for room, EntryTooLarge (the writer goes on after both), or what ended
        the writer.
        """
        self.check_process()
        record, size = checked_record(payload, key, headers, event_time, self.entry_bytes_max)
        if self.is_full:
            raise WriterFull(f"log {self.record.name!r}", self.pending_bytes_max)
        self.submit_each([record], size, [None])
        return self.next_position - 1

    async def confirmed(self, through: int) -> None:
        """Waits until every appended record through this position is confirmed. Raises what ended the writer before."""
        self.check_process()
        if through >= self.next_position:
            self.raise_if_ended()
            raise ValueError(f"position {through} of log {self.record.name!r} was not appended")
        if through < self.confirmed_end:
            return
        if self.failure is not None:
            raise self.failure
        waiting: asyncio.Future[int] = self._loop.create_future()
        self._answers.flush(waiting, through)
        await waiting

    async def flush(self) -> None:
        """Waits until every append so far has completed; raises what ended the writer, if anything did."""
        self.check_process()
        if self._answers.appends_wait:
            flushed: asyncio.Future[int] = self._loop.create_future()
            self._answers.flush(flushed)
            await flushed
        elif self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        """Flushes, then closes the last ledger and notes the end in the log's record. Safe to repeat.

        Raises what ended the writer; the next writer settles the end of the log then.
        """
        self.check_process()
        self._closing = True
        with suppress(LedgerError):  # what ended the writer is raised below
            await self.flush()
        if not self.has_ended:
            self._close_last()
        error = await asyncio.shield(self._finished)
        await self._tasks.settled(LEFT_OVER_SECONDS_MAX)
        await self._let_go()
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the writer, also after an error in the block: what was confirmed stays readable."""
        if isinstance(error, LedgerError) and self.has_ended:
            await self._let_go()  # the block already raises what ended the writer
        else:
            await self.close()
