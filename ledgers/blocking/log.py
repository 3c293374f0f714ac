"""Logs in ordinary code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Unpack

from metadata.records.coordination.cursor_record import CursorRecord
from metadata.records.logs.log_record import LogRecord, Segment
from metadata.records.logs.retained import Retained
from metadata.records.logs.retention import Retention

from ..entry import Payload
from ..logs import log as aio
from ..logs.cursors.consumption import ConsumeOptions
from ..logs.cursors.cursor import COMMIT_SECONDS
from ..logs.cursors.lag import Lag
from ..logs.cursors.where import Where
from ..logs.producers.errors import SequenceTooOld
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
from ..loop_thread import LoopThread, in_pages, iterate
from .bulk_writer import BulkWriter
from .coordination.cursor import Cursor, consume
from .coordination.election import Term
from .handle import closed_once

SEGMENTS_PER_HOP = 256
"""Segments fetched from the loop's thread at a time."""

CURSORS_PER_HOP = 256
"""The same for cursors."""


class LogWriter(BulkWriter[AsyncLogWriter, "bytes | NewRecord"]):
    """The one writer of a log; see `ledgers.logs.writing.log_writer.LogWriter` for its guarantees."""

    def __init__(self, thread: LoopThread, writer: AsyncLogWriter) -> None:
        super().__init__(thread, writer, writer._cluster.turn, next_entry=writer.next_position)
        self._entry_bytes_max = writer.entry_bytes_max
        self._waiting = WaitingCalls()

    @property
    def record(self) -> LogRecord:
        """The log's metadata as this writer last knew it."""
        return self._handle.record

    @property
    def epoch(self) -> int:
        """The number of this writer's term."""
        return self._handle.epoch

    @property
    def next_position(self) -> int:
        """The position of what is appended next."""
        return self._next_entry

    @property
    def confirmed_end(self) -> int:
        """All records before this position are confirmed. Never goes back."""
        return self._handle.confirmed_end

    def append(self, payload: Payload, **fields: Unpack[RecordFields]) -> int:
        """Appends one record; returns its position when an ack quorum has it on disk.

        It may have a `key`, `headers` and an `event_time`, as a `NewRecord`. With a `producer` and a `sequence` it is
        stored once; what it raises then, see `ledgers.logs.writing.log_writer.LogWriter.append`.
        """
        self._thread.check_may_wait()
        return self.append_async(payload, **fields).result()

    def append_async(self, payload: Payload, **fields: Unpack[RecordFields]) -> Future[int]:
        """Takes one record in; returns the future of its position. Positions follow the order of these calls.

        Waits, raises and calls back as `WriteHandle.append_async` does.
        """
        if not fields and type(payload) is bytes:  # as nearly always: no call is made
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

    def append_batch(
        self,
        records: Sequence[Payload | NewRecord],
        *,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> Sequence[int]:
        """Appends consecutive records; returns their positions when all are confirmed, as for `append`.

        With a producer each is stored once; see `ledgers.logs.writing.log_writer.LogWriter.append_batch`.
        """
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
        """The positions of those that are there already. Callers hold the lock until the rest is handed over."""
        self._handle.raise_if_ended()
        return self._handle.producers.take(producer, sequence, count, self._next_entry)

    @contextmanager
    def _in_turn(self, producer: str, sequence: int) -> Iterator[None]:
        """Holds the lock, which orders positions, once earlier calls of the producer are through and there is room."""
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
            self.confirmed(error.last_position)  # else it would tell of what may never be stored
            raise

    def _wait_for_turn(self, call: WaitingCall) -> None:
        while not self._waiting.is_next(call):
            self._thread.check_may_wait()
            self._room.changed.wait()
            self._thread.check_open()
        call.raise_if_behind_failure()
        if not self._handle.producers.is_begun:
            self._room.lock.release()  # the loop's thread needs it
            try:
                self._run(partial(self._handle.until_its_turn, call.producer, call.sequence))
            finally:
                self._room.lock.acquire()
        self._room.wait_while_full(self._free_bytes)

    async def _confirmed_at(self, position: int) -> int:
        await self._after_taking(lambda: self._handle.confirmed(position))
        return position

    def last_sequence(self, producer: str) -> int | None:
        """The last sequence of a producer in the log, or taken in; None for one that is new, or was forgotten."""
        return self._handle.last_sequence(producer)

    def append_nowait(
        self,
        payload: Payload,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        event_time: int | None = None,
    ) -> int:
        """Takes one record in and returns its position at once; `confirmed` tells when it is on disk.

        Raises WriterFull instead of waiting for room, else as `append_async`.
        """
        record = record_of(payload, key, headers, event_time)
        size = size_of(record, self._entry_bytes_max)
        return self._append_now(record, size, f"log {self.record.name!r}")

    def confirmed(self, through: int) -> None:
        """Waits until every appended record through this position is confirmed; raises what ended the writer."""
        self._run(lambda: self._handle.confirmed(through))

    def flush(self) -> None:
        """Waits for all appends so far; raises what ended the writer."""
        self._run(self._handle.flush)

    def close(self) -> None:
        """Flushes, then ends the log's last segment; raises what ended the writer."""
        with closed_once(self._handle):
            self._run(self._handle.close)


class Log:
    """A log, opened; see `ledgers.logs.log.Log`. May be used from several threads."""

    def __init__(self, thread: LoopThread, twin: aio.Log) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def name(self) -> str:
        return self._twin.name

    @property
    def record(self) -> LogRecord:
        """The log's metadata as it was seen last."""
        return self._twin.record

    def refresh(self) -> LogRecord:
        """Reads the metadata again."""
        return self._thread.run(self._twin.refresh())

    def writer(self, name: str | None = None, *, term: Term | None = None) -> LogWriter:
        """Takes the log over, and becomes its one writer; see `ledgers.logs.log.Log.writer`."""
        led = None if term is None else term.twin
        return LogWriter(self._thread, self._thread.run(self._twin.writer(name, term=led)))

    def first_position(self) -> int:
        """The position of the oldest record that is left."""
        return self._thread.run(self._twin.first_position())

    def end(self) -> int:
        """The position behind the last record that bookies know as confirmed.

        What a writer confirmed in its last moment before it died counts only after the next take-over (rule L4).
        """
        return self._thread.run(self._twin.end())

    def read(self, start: int | None = None, stop: int | None = None) -> Iterator[Record]:
        """Yields the confirmed records from `start` to before `stop`; from the oldest and to the end by default."""
        return _records(self.batches(start, stop))

    def __iter__(self) -> Iterator[Record]:
        """Yields all that is left and confirmed."""
        return self.read()

    def batches(self, start: int | None = None, stop: int | None = None) -> Iterator[RecordBatch]:
        """Yields the same records as `read` in columns, a page at a time: for bulk work."""
        return iterate(self._thread, self._twin.batches(start, stop))

    def tail(self, start: int | None = None, *, timeout: float | None = None) -> Iterator[Record]:
        """Yields records as they are confirmed, over rolls and fail-overs, until `timeout` s bring none."""
        return _records(self.tail_batches(start, timeout=timeout))

    def tail_batches(
        self, start: int | None = None, *, timeout: float | None = None
    ) -> Iterator[RecordBatch]:
        """Yields the same records as `tail` in columns, a page at a time."""
        return iterate(self._thread, self._twin.tail_batches(start, timeout=timeout))

    def poll(self, start: int, *, timeout: float, records_max: int = 1000) -> list[Record]:
        """Waits for records from `start` on; returns at most so many, and none after `timeout` seconds."""
        return self._thread.run(self._twin.poll(start, timeout=timeout, records_max=records_max))

    def position_at(self, time: datetime) -> int:
        """The first position whose record was appended at this time or later; the end where there is none."""
        return self._thread.run(self._twin.position_at(time))

    def segments(self, start: int | None = None) -> Iterator[Segment]:
        """Yields all segments that are left, in order, from the one on that holds `start`; the last one may be open."""
        found = in_pages(self._twin.segments(start), SEGMENTS_PER_HOP)
        return chain.from_iterable(iterate(self._thread, found))

    def cursor(
        self,
        name: str,
        *,
        start: Where | None = "beginning",
        commit_seconds: float = COMMIT_SECONDS,
        commits_at_close: bool = True,
    ) -> Cursor:
        """Opens a cursor, or creates it at `start`; see `ledgers.logs.log.Log.cursor`."""
        opened = self._twin.cursor(
            name, start=start, commit_seconds=commit_seconds, commits_at_close=commits_at_close
        )
        return Cursor(self._thread, self._thread.run(opened))

    def consume(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> Iterator[Record]:
        """Yields records from where the cursor stands, each at least once, and commits what was used.

        See `ledgers.logs.log.Log.consume`.
        """
        return consume(self._thread, self._twin.consumption(name, start=start, **options))

    def lag(self, position: int) -> Lag:
        """How far a reader that stands at this position is behind the end."""
        return self._thread.run(self._twin.lag(position))

    def cursors(self) -> Iterator[tuple[str, CursorRecord]]:
        """Yields the name and the metadata of every cursor, in the order of names."""
        return chain.from_iterable(iterate(self._thread, in_pages(self._twin.cursors(), CURSORS_PER_HOP)))

    def delete_cursor(self, name: str) -> None:
        """Deletes a cursor. Raises NoSuchCursor."""
        self._thread.run(self._twin.delete_cursor(name))

    def truncate(self, before: int) -> None:
        """Gives up all records before this position; see `ledgers.logs.log.Log.truncate`."""
        self._thread.run(self._twin.truncate(before))

    @property
    def retention(self) -> Retention:
        """What goes by itself, as it was seen last."""
        return self._twin.retention

    def set_retention(self, retention: Retention) -> None:
        """Settles what goes by itself; see `ledgers.logs.log.Log.set_retention`."""
        self._thread.run(self._twin.set_retention(retention))

    def retained(self) -> Retained:
        """What goes next, and what keeps it; see `ledgers.logs.log.Log.retained`."""
        return self._thread.run(self._twin.retained())

    def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold: while it lasts nothing of the log is given up, and no ledger of it deleted.

        It keeps what is left when it begins; a ledger that was given up before may be being deleted in that moment.
        """
        self._thread.run(self._twin.set_legal_hold(is_held))


def _records(batches: Iterator[RecordBatch]) -> Iterator[Record]:
    return chain.from_iterable(map(RecordBatch.records, batches))
