"""The writer of a log: appends records to consecutive ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from ...entry import Payload, check_int
from ...errors import LedgerError, WriterFull
from ..errors import SequenceTooOld
from ..record_batch import NewRecord, Numbered
from .checked_records import CheckedRecords, RecordFields, numbered, numbering, record_of, size_of
from .writer_shell import WriterShell

LEFT_OVER_SECONDS_MAX = 5.0
"""How long closing a writer waits for work already in progress: the creation of a ledger, or the deletion of an
unneeded one."""


class LogWriter(WriterShell):
    """The only writer of a log. Made by `Log.writer`; belongs to its event loop.

    Records are confirmed strictly in order of their positions, which have no gaps. When the writer fails (`LogFenced`,
    `NotEnoughBookies`, …), every unconfirmed append fails with that error, and so do `flush` and `close`. Such an
    unconfirmed record may or may not be in the log; the next writer settles this when it takes the log over. A payload
    is bytes; `NewRecord` adds a key, headers and the application's own time.

    `append` waits until a record is confirmed, `append_async` returns its future, and `append_batch` appends many at
    once. `close` and leaving the context manager flush the writer and close the log's last segment.
    """

    def __repr__(self) -> str:
        return f"<LogWriter of log {self.record.name!r}: {self.state}, confirmed before {self.confirmed_end}>"

    async def append(self, payload: Payload, **fields: Unpack[RecordFields]) -> int:
        """Appends one record; returns its position once an ack quorum has the record on disk.

        The record may have a `key`, `headers` and an `event_time`, as a `NewRecord` has. With a `producer` and a
        `sequence`, the record is stored only once: if the log already has it, from any writer, the position of the
        stored record is returned. A producer's sequences must rise, and may have gaps. Waits for room as `append_async`
        does.

        Raises EntryTooLarge, or the error that ended the writer. With a producer, it may also raise the following
        errors, after which the writer remains usable: SequenceTooOld for a sequence before the producer's last one that
        is in none of the runs that the log remembers (RUNS_OF_ONE_MAX, EARLIER_RUNS_MAX); ProducerForgotten;
        OutOfOrderSequence if an earlier call of the producer was not accepted, for example because it was cancelled (in
        that case nothing was accepted); and MetadataUnavailable if the metadata store does not answer when the writer
        records that the log has producers.
        """
        return await (await self.append_async(payload, **fields))

    async def append_async(self, payload: Payload, **fields: Unpack[RecordFields]) -> asyncio.Future[int]:
        """Accepts one record; returns a future for its position. Positions follow the order of these calls.

        Waits only while `pending_bytes_max` bytes are unconfirmed or a bookie is too far behind, and once for each log,
        to record that the log has producers. Raises the errors of `append`. If an error ends the writer later, the
        future, `flush` and `close` raise it. In a callback of a blocking client's future, this call raises
        WouldDeadlock if it would have to wait.
        """
        self.check_process()
        record = record_of(payload, **fields)
        size = size_of(record, self.entry_bytes_max)
        future: asyncio.Future[int] = self._loop.create_future()
        earlier: Sequence[int] = ()
        if isinstance(record, Numbered):
            earlier = await self._earlier(record.producer, record.sequence, 1)
        elif self._room_bytes <= 0:
            await self._until_room()
        if earlier:
            self._complete_at(earlier[0], future)
        elif type(record) is bytes:
            self.raise_if_ended()
            self._gather(record, size, future)
        else:
            self.submit_each([record], size, [future])
        return future

    async def append_batch(
        self,
        records: Sequence[Payload | NewRecord],
        *,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> Sequence[int]:
        """Appends consecutive records; returns their positions once all are confirmed, as for `append`.

        With a producer, each record is stored only once: the first record has the given sequence, and the rest have the
        following ones. If the log already has the first records, however they were appended, only the rest are
        appended. Raises the errors of `append`; if any record raises SequenceTooOld, none is appended. Waits for room
        before it accepts the records, as `append_async` does. The positions of batches follow the order of these calls.
        """
        self.check_process()
        if producer is not None or sequence is not None:
            return await self._append_once(records, *numbering(producer, sequence))
        checked = CheckedRecords(records, self.entry_bytes_max)
        await self._until_room()
        return await self._append_all(checked)

    async def _append_all(self, checked: CheckedRecords) -> range:
        if not checked.payloads:
            return range(self.next_position, self.next_position)
        future: asyncio.Future[int] = self._loop.create_future()
        first = self.submit_batch(checked, future)
        return range(first, await future + 1)

    async def _append_once(
        self, records: Sequence[Payload | NewRecord], producer: str, sequence: int
    ) -> Sequence[int]:
        batch = numbered(records, producer, sequence)
        checked = CheckedRecords(batch, self.entry_bytes_max)
        earlier = await self._earlier(producer, sequence, len(batch))
        if not earlier:
            return await self._append_all(checked)
        left = await self._append_all(CheckedRecords(batch[len(earlier) :], self.entry_bytes_max))
        await self.confirmed(earlier[-1])
        return [*earlier, *left]

    async def _earlier(self, producer: str, sequence: int, count: int) -> Sequence[int]:
        """Returns the positions of the records that already exist; the caller must append the rest without waiting."""
        await self.until_its_turn(producer, sequence)
        try:
            return self.producers.take(producer, sequence, count, self.next_position)
        except SequenceTooOld as error:
            # Without this wait, the error might report a record that is never stored.
            await self.confirmed(error.last_position)
            raise

    def last_sequence(self, producer: str) -> int | None:
        """Returns the producer's last sequence that is in the log or was accepted by this writer; None if the producer
        is new or was forgotten."""
        return self.producers.last_sequence(producer)

    async def until_its_turn(self, producer: str, sequence: int) -> None:
        """Waits until a producer's records may be accepted: the log's record must state that the log has producers, and
        there must be room.

        Raises MetadataUnavailable, OutOfOrderSequence, or the error that ended the writer.
        """
        with self.producers.waiting.call(producer, sequence) as call:
            async with self.producers.turn:
                call.raise_if_behind_failure()
                self.raise_if_ended()
                if not self.producers.is_begun:
                    # Lets other calls in this loop iteration queue up after this one, in case it fails at once.
                    await asyncio.sleep(0)
                    await self.producers.begin(self.confirmed_end)
                if self._room_bytes <= 0:
                    await self._until_room()
        self.raise_if_ended()

    def _complete_at(self, position: int, future: asyncio.Future[int]) -> None:
        """Completes a future with this position once the position is confirmed."""
        if position < self.confirmed_end:
            future.set_result(position)
        else:
            self._answers.flush(future, position)

    def append_nowait(
        self,
        payload: Payload,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> int:
        """Accepts one record and returns its position at once; `confirmed` waits until the record is on disk.

        Raises WriterFull instead of waiting for room, or EntryTooLarge (after both errors the writer remains usable),
        or the error that ended the writer.
        """
        self.check_process()
        checked = CheckedRecords([record_of(payload, key, headers, event_time)], self.entry_bytes_max)
        if self.is_full:
            raise WriterFull(f"log {self.record.name!r}", self.pending_bytes_max)
        return self.submit_batch(checked, None)

    async def confirmed(self, through: int) -> None:
        """Waits until every appended record through this position is confirmed.

        If an error ends the writer before that, raises that error. Raises ValueError for a position that was not
        appended.
        """
        self.check_process()
        check_int("a position", through)
        if through >= self.next_position:
            self.raise_if_ended()
            raise ValueError(f"position {through} of log {self.record.name!r} was not appended")
        if through < self.confirmed_end:
            return
        self._raise_if_failed()
        waiting: asyncio.Future[int] = self._loop.create_future()
        self._answers.flush(waiting, through)
        await waiting

    async def close(self) -> None:
        """Flushes, then closes the last ledger and writes the log's end to the log's record. Safe to repeat.

        Raises the error that ended the writer; in that case the next writer determines where the log ends.
        """
        self.check_process()
        self._closing = True
        with suppress(LedgerError):  # the error that ended the writer is raised below
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
        """Closes the writer, even after an error in the block. Confirmed records remain readable."""
        if isinstance(error, LedgerError) and self.has_ended:
            await self._let_go()  # the block already raises the error that ended the writer
        else:
            await self.close()
