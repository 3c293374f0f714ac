"""Blocking logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Unpack

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.retention import Retention

from ..entry import Payload
from ..logs import log as aio
from ..logs.cursors.consumption import ConsumeOptions
from ..logs.cursors.start_position import Where
from ..logs.errors import SequenceTooOld
from ..logs.producers.waiting_calls import WaitingCall, WaitingCalls
from ..logs.record_batch import HEAD_BYTES, NewRecord, Numbered, Record, RecordBatch
from ..logs.writing.checked_records import (
    CheckedRecords,
    RecordFields,
    numbered,
    numbering,
    record_of,
    size_of,
)
from ..logs.writing.log_writer import LogWriter as AsyncLogWriter
from ..loop_thread import LoopThread
from .bulk_writer import BulkWriter
from .cursor import Cursor, consume
from .election import Term
from .handle import closed_once
from .twin_calls import BlockingFacade, copy_docstring, in_items, iterating, listing, opening, waiting_for


class LogWriter(BulkWriter[AsyncLogWriter, "bytes | NewRecord"]):
    """The only writer of a log. Made by `Log.writer`; may be used from several threads.

    Records are confirmed strictly in order of their positions, which have no gaps. When the writer fails (`LogFenced`,
    `NotEnoughBookies`, …), every unconfirmed append fails with that error, and so do `flush` and `close`. Such an
    unconfirmed record may or may not be in the log; the next writer settles this when it takes the log over. A payload
    is bytes; `NewRecord` adds a key, headers and the application's own time.

    `append` waits until a record is confirmed, `append_async` returns its future, and `append_batch` appends many at
    once. `close` and leaving the context manager flush the writer and close the log's last segment.
    """

    def __init__(self, thread: LoopThread, writer: AsyncLogWriter) -> None:
        super().__init__(thread, writer, writer._cluster.turn, next_entry=writer.next_position)
        self._entry_bytes_max = writer.entry_bytes_max
        self._waiting = WaitingCalls()

    @property
    def record(self) -> LogRecord:
        """The log's metadata, as last known to this writer."""
        return self._twin.record

    @property
    def epoch(self) -> int:
        """The number of this writer's epoch; each take-over of the log begins a higher one."""
        return self._twin.epoch

    @property
    def next_position(self) -> int:
        """The position of the next record to be appended."""
        return self._next_entry

    @property
    def confirmed_end(self) -> int:
        """The position before which all records are confirmed. It never goes back."""
        return self._twin.confirmed_end

    @copy_docstring(AsyncLogWriter.append)
    def append(self, payload: Payload, **fields: Unpack[RecordFields]) -> int:
        self._thread.check_may_wait()
        return self.append_async(payload, **fields).result()

    @copy_docstring(AsyncLogWriter.append_async)
    def append_async(self, payload: Payload, **fields: Unpack[RecordFields]) -> Future[int]:
        if not fields and type(payload) is bytes:  # the common case, inlined for speed
            size = HEAD_BYTES + len(payload)
            if size <= self._entry_bytes_max:
                return self._append_one(payload, size)
        record = record_of(payload, **fields)
        size = size_of(record, self._entry_bytes_max)
        if not isinstance(record, Numbered):
            return self._append_one(record, size)
        with self._in_turn(record.producer, record.sequence):
            earlier = self._earlier(record.producer, record.sequence, 1)
            if not earlier:
                return self._append_one(record, size)
        return self._thread.submit(self._confirmed_at(earlier[0]))

    @copy_docstring(AsyncLogWriter.append_batch)
    def append_batch(
        self,
        records: Sequence[Payload | NewRecord],
        *,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> Sequence[int]:
        self._thread.check_may_wait()
        if producer is not None or sequence is not None:
            return self._append_once(records, *numbering(producer, sequence))
        return self._append_all(CheckedRecords(records, self._entry_bytes_max))

    def _append_once(
        self, records: Sequence[Payload | NewRecord], producer: str, sequence: int
    ) -> Sequence[int]:
        batch = numbered(records, producer, sequence)
        checked = CheckedRecords(batch, self._entry_bytes_max)
        with self._in_turn(producer, sequence):
            earlier = self._earlier(producer, sequence, len(batch))
            if earlier:
                checked = CheckedRecords(batch[len(earlier) :], self._entry_bytes_max)
            first, future = self._add_all(checked)
        left = range(first, first if future is None else future.result() + 1)
        if not earlier:
            return left
        self.confirmed(earlier[-1])
        return [*earlier, *left]

    def _earlier(self, producer: str, sequence: int, count: int) -> Sequence[int]:
        """Returns the positions of those records that are already in the log. Callers hold the lock until they have
        handed over the remaining records."""
        self._twin.raise_if_ended()
        return self._twin.producers.take(producer, sequence, count, self._next_entry)

    @contextmanager
    def _in_turn(self, producer: str, sequence: int) -> Iterator[None]:
        """Waits until the producer's earlier calls have ended and there is room, and then holds the lock that orders
        positions."""
        self._thread.check_open()
        try:
            with self._room.lock:
                try:
                    with self._waiting.call(producer, sequence) as call:
                        self._wait_for_turn(call)
                finally:
                    self._room.changed.notify_all()
                yield
        except SequenceTooOld as error:
            # Wait until the record that the error reports is confirmed; otherwise it might never be stored.
            self.confirmed(error.last_position)
            raise

    def _wait_for_turn(self, call: WaitingCall) -> None:
        while not self._waiting.is_next(call):
            self._thread.check_may_wait()
            self._room.changed.wait()
            self._thread.check_open()
        call.raise_if_behind_failure()
        if not self._twin.producers.is_begun:
            self._room.lock.release()  # the loop's thread needs the lock
            try:
                self._run(partial(self._twin.until_its_turn, call.producer, call.sequence))
            finally:
                self._room.lock.acquire()
        self._room.wait_while_full(self._free_bytes)

    async def _confirmed_at(self, position: int) -> int:
        await self._after_taking(lambda: self._twin.confirmed(position))
        return position

    @copy_docstring(AsyncLogWriter.last_sequence)
    def last_sequence(self, producer: str) -> int | None:
        return self._twin.last_sequence(producer)

    @copy_docstring(AsyncLogWriter.append_nowait)
    def append_nowait(
        self,
        payload: Payload,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> int:
        record = record_of(payload, key, headers, event_time)
        size = size_of(record, self._entry_bytes_max)
        return self._append_now(record, size, f"log {self.record.name!r}")

    confirmed = waiting_for(AsyncLogWriter.confirmed)
    flush = waiting_for(AsyncLogWriter.flush)

    @copy_docstring(AsyncLogWriter.close)
    def close(self) -> None:
        with closed_once(self._twin):
            self._run(self._twin.close)


class Log(BlockingFacade[aio.Log]):
    """An opened log. Made by `LedgerClient.log` and `create_log`; may be used from several threads.

    Readers do not fence the writer, and see only confirmed records. Every call raises NoSuchLog once the log is
    deleted, Unauthorized for a wrong password, and MetadataUnavailable.
    """

    @property
    def name(self) -> str:
        """The log's current name, as last read."""
        return self._twin.name

    @property
    def record(self) -> LogRecord:
        """The log's metadata, as last read or written."""
        return self._twin.record

    refresh = waiting_for(aio.Log.refresh)

    def writer(self, name: str | None = None, *, term: Term | None = None) -> LogWriter:
        """Takes the log over: fences and closes the segment that the former writer left, and becomes the only writer.

        `name` is a human-readable label; the default is host and process. If a `term` is given, the log from then on
        refuses leaders of earlier terms of the same election: they get LogFenced. Raises LogFenced if another writer
        takes the log over in the meantime or a leader of a later term has already done so, LeadershipLost if the term
        is over, LogRestored for the former log of a restoration, LedgerRecoveryFailed, NotEnoughBookies, NotAllowed.
        """
        led = None if term is None else term._twin
        return LogWriter(self._thread, self._run(partial(self._twin.writer, name, term=led)))

    first_position = waiting_for(aio.Log.first_position)
    end = waiting_for(aio.Log.end)
    read = in_items(aio.Log.read, aio.Log.batches, RecordBatch.records)

    def __iter__(self) -> Iterator[Record]:
        """Yields all confirmed records, from the oldest remaining one."""
        return self.read()

    batches = iterating(aio.Log.batches)
    tail = in_items(aio.Log.tail, aio.Log.tail_batches, RecordBatch.records)
    tail_batches = iterating(aio.Log.tail_batches)
    poll = waiting_for(aio.Log.poll)
    position_at = waiting_for(aio.Log.position_at)
    segments = listing(aio.Log.segments)

    cursor = opening(aio.Log.cursor, Cursor)

    @copy_docstring(aio.Log.consume)
    def consume(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> Iterator[Record]:
        return consume(self._thread, self._twin.consumption(name, start=start, **options))

    lag = waiting_for(aio.Log.lag)
    cursors = listing(aio.Log.cursors)
    delete_cursor = waiting_for(aio.Log.delete_cursor)

    @copy_docstring(aio.Log.fork)
    def fork(self, name: str, *, at: Where = "end") -> Log:
        return Log(self._thread, self._run(partial(self._twin.fork, name, at=at)))

    restore = waiting_for(aio.Log.restore)
    sharing = waiting_for(aio.Log.sharing)

    truncate = waiting_for(aio.Log.truncate)

    @property
    def retention(self) -> Retention:
        """The rules by which old records are deleted automatically, as last read or written."""
        return self._twin.retention

    set_retention = waiting_for(aio.Log.set_retention)
    retained = waiting_for(aio.Log.retained)
    set_legal_hold = waiting_for(aio.Log.set_legal_hold)
