"""The outer layer of a log's writer: performs the effects of the writer's pipeline on ledgers and on the log's
record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from bookie.wire import FRAME_BYTES_MAX
from metadata.records.logs.segment import Segment

from ...cluster import Cluster
from ...entry import ENTRY_OVERHEAD_BYTES
from ...errors import (
    AppendTimeout,
    LedgerClosed,
    LedgerError,
    LedgerFenced,
    LogClosed,
    LogFenced,
    NoSuchLedger,
    NotEnoughBookies,
    Unauthorized,
    Unconfirmed,
)
from ...tasks import Tasks
from ...writing.append_futures import AppendFuture
from ...writing.write_handle import WriteHandle
from ..known_end import KnownEnd
from ..log_chain import Ended, LogChain, dropped_by_rivals_only, joined, last_ended, under
from ..log_segment_ledgers import LogSegmentLedgers
from ..producers.producer_state_manager import ProducerStateManager
from ..record_batch import EncodedRecords, NewRecord, encode
from ..segment_pages import turn_full_pages
from .checked_records import CheckedRecords
from .log_pipeline import (
    CloseSegment,
    ConfirmRecords,
    Discard,
    FinishWriter,
    Join,
    LogEffect,
    MakeSegment,
    RecoverSegment,
    Submit,
)
from .record_clock import RecordClock
from .roll_schedule import RollSchedule
from .writer_state import WriterState

log = logging.getLogger(__name__)

MAKE_SECONDS_MAX = 2.0
"""How long appends wait for the next segment's ledger to be created; after that, the last segment continues, and is
ended later."""

FAILS_ALONE = (LedgerFenced, LedgerClosed, NoSuchLedger, Unauthorized, NotEnoughBookies, AppendTimeout)
"""Errors after which a new ledger may succeed. If another client recovered or deleted the ledger, that client may have
taken the log over as well; the log's record shows this."""


class WriterShell(WriterState):
    """Performs the effects of a log's pipeline, and reports their outcomes to the pipeline.

    `submit_each` and `submit_batch` accept records.
    """

    def __init__(
        self,
        cluster: Cluster,
        chain: LogChain,
        ledgers: LogSegmentLedgers,
        epoch: int,
        begun: WriteHandle,
        producers: ProducerStateManager,
        clock: RecordClock,
        known: KnownEnd,
    ) -> None:
        """`begun`: the ledger of the log's last segment, which this writer has added to the record. `producers`: the
        producer state at the start of that segment."""
        super().__init__(cluster, chain, epoch, begun)
        self._known = known
        known.advance_to(self.confirmed_end)
        last = self._chain.record.last
        assert last is not None
        assert last.ledger_id == begun.ledger_id
        self._ledgers = ledgers
        self.producers = producers
        self._clock = clock
        self._time_us = self._cut_us = self._next_us = last.begun_us
        self._room = asyncio.Event()
        self._room_bytes = 0  # bytes that may be accepted before the pending bytes are counted again
        self._tasks = Tasks(self._background_failed)
        self._schedule = RollSchedule(chain.record.settings, self._roll)
        self._adopt(0, begun)

    # --- accepting records ----------------------------------------------------------------------------

    def submit_each(
        self,
        records: Sequence[bytes | NewRecord],
        size_bytes: int,
        futures: Sequence[AppendFuture],
    ) -> None:
        """Accepts records without waiting, either each with its own future or all without futures. The caller has
        checked the records and their size."""
        self._take_gathered()
        self.raise_if_ended()
        self._take(records, size_bytes)
        self._answers.append_each(len(records), futures)

    def submit_batch(self, batch: CheckedRecords, future: AppendFuture | None) -> int:
        """Accepts all records of a batch or none, without waiting; returns the first position."""
        self._take_gathered()
        self.raise_if_ended()
        first = self.next_position
        self._take(batch.payloads, batch.size_bytes)
        self._answers.append(future, len(batch.payloads))
        return first

    def _gather(self, payload: bytes, size_bytes: int, future: AppendFuture) -> None:
        """Gathers one record with the other records of this iteration of the event loop. The caller makes sure that
        there is room."""
        gathered = self._gathered
        if not gathered.payloads:
            self._cluster.turn.take(self._take_gathered)
        gathered.payloads.append(payload)
        gathered.entry_bytes += size_bytes
        self._room_bytes -= size_bytes + ENTRY_OVERHEAD_BYTES
        self._answers.last_run.append(future)

    def _take_gathered(self) -> None:
        """Passes the gathered records on to the pipeline. If that fails, ends the writer, because the records' futures
        would otherwise never complete."""
        payloads, size_bytes = self._gathered.take()
        if payloads and not self.has_ended:
            try:
                self._take(payloads, size_bytes)
            except Exception as error:
                self._background_failed(error)

    def _take(self, records: Sequence[bytes | NewRecord], size_bytes: int) -> None:
        self._time_us = max(self._time_us, self._clock.now_us())
        encoded = encode(records, self._time_us)
        self._unconfirmed.add(encoded, size_bytes)
        self._count_room()
        count = len(records)
        if count < self._machine.room:
            self._pass_on(encoded, size_bytes)
        else:
            self._pass_on_over_the_cut(encoded, size_bytes)
        self._schedule.appended(count, size_bytes)

    def _pass_on(self, records: EncodedRecords, size_bytes: int) -> None:
        number = self._machine.appended(len(records.rests))
        if number is not None:
            self._append(number, records, size_bytes)

    def _pass_on_over_the_cut(self, records: EncodedRecords, size_bytes: int) -> None:
        """Splits records at the cut: those before it are the last records of the current segment."""
        count, room = len(records.rests), self._machine.room
        before, behind = records.cut(0, room), records.cut(room, count)
        self._pass_on(before, before.size_bytes)
        self._begin_next()
        self._perform(self._machine.cut_reached())
        if behind.rests:
            self._pass_on(behind, size_bytes - before.size_bytes)

    def _append(self, number: int, records: EncodedRecords, size_bytes: int) -> None:
        handle = self._handles[number]
        if not handle.has_ended:  # otherwise its failure is reported and another segment takes the records
            handle.submit_each(records.rests, size_bytes, (), records.head)

    async def _until_room(self) -> None:
        self._take_gathered()
        while self.is_full:
            self._room.clear()
            await self._room.wait()
        self._count_room()

    def _count_room(self) -> None:
        """Computes the room for further records, limited to the size of one frame, because no more than that is
        gathered."""
        self._room_bytes = min(self.pending_bytes_max - self.pending_bytes, FRAME_BYTES_MAX)

    def _roll(self, ahead: int) -> bool:
        """Ends the last segment after `ahead` further records, if that is possible now; returns whether it was
        possible."""
        self._tasks.start(self._clock.ask_again())
        if not self._machine.may_roll:
            return False
        if not ahead:
            self._begin_next()
        self._perform(self._machine.roll(ahead))
        return True

    def _begin_next(self) -> None:
        """Begins the next segment with the records accepted from now on. Their times may be earlier than those of
        previous records if the previous times were wrong."""
        self._cut_us = self._time_us
        self._time_us = self._next_us = self._clock.begin_us(self._time_us)

    def _close_last(self) -> None:
        """Ends the last segment for good. All appended records must have been confirmed."""
        self._cut_us = self._time_us
        self._perform(self._machine.close())

    # --- effects ----------------------------------------------------------------------------------------

    def _perform(self, effects: list[LogEffect]) -> None:
        for effect in effects:
            match effect:
                case Submit(number, first, stop):
                    for records in self._unconfirmed.between(first, stop):
                        self._append(number, records, records.size_bytes)
                case ConfirmRecords(end):
                    self._known.advance_to(end)
                    count = self._unconfirmed.drop(end)
                    if (metrics := self._cluster.log_metrics) is not None:
                        metrics.append_records.inc(count)
                    self.producers.confirmed(end, self._time_us)
                    self._answers.confirmed(end - 1)
                    self._made_progress()
                case MakeSegment(number, first):
                    self._start(self._make, number, first)
                    self._loop.call_later(MAKE_SECONDS_MAX, self._made_late, number)
                case CloseSegment(number):
                    self._start(self._close_segment, number)
                case RecoverSegment(number):
                    self._start(self._recover, number)
                case Join():
                    self._start(self._join, effect)
                case Discard(number):
                    self._start(self._discard, number)
                case FinishWriter(error):
                    self._finish(error)

    def _start(self, work: Callable[..., Coroutine[Any, Any, list[LogEffect]]], *about: Any) -> None:
        async def done() -> None:
            try:
                effects = await work(*about)
            except LedgerError as error:
                effects = self._machine.fail(error)
            self._perform(effects)

        self._tasks.start(done())

    async def _make(self, number: int, first_position: int) -> list[LogEffect]:
        try:
            handle = await self._ledgers.create(self.record, first_position)
        except LedgerError as error:
            return self._not_made(number, error)
        self._adopt(number, handle)
        return self._machine.made(number)

    def _made_late(self, number: int) -> None:
        if self._machine.may_go_on_without(number):
            late = LedgerError(f"no ledger was created within {MAKE_SECONDS_MAX} s")
            self._perform(self._not_made(number, late))
        elif self._machine.is_making(number) and not self.has_ended:
            self._loop.call_later(MAKE_SECONDS_MAX, self._made_late, number)

    def _not_made(self, number: int, error: LedgerError) -> list[LogEffect]:
        log.info(
            "log %r continues in its last segment, because the next one could not be created: %s",
            self.record.name,
            error,
        )
        self._schedule.postponed()
        return self._machine.not_made(number, error)

    def _adopt(self, number: int, handle: WriteHandle) -> None:
        self._handles[number] = handle
        handle.on_progress = partial(self._progressed, number, handle)
        if handle.has_ended:  # the handle ended before `on_progress` was set
            self._loop.call_soon(handle.on_progress)

    def _progressed(self, number: int, handle: WriteHandle) -> None:
        if self._handles.get(number) is not handle:
            return
        self._perform(self._machine.progressed(number, handle.last_add_confirmed))
        if handle.failure is not None:
            self._perform(self._failed(number, handle.failure))

    def _failed(self, number: int, error: LedgerError) -> list[LogEffect]:
        return self._machine.failed(number, error, is_final=not isinstance(error, FAILS_ALONE))

    async def _close_segment(self, number: int) -> list[LogEffect]:
        handle = self._handles[number]
        try:
            await handle.close()
        except LedgerError as error:
            return self._failed(number, error)
        progressed = self._machine.progressed(number, handle.last_add_confirmed)
        return [*progressed, *self._machine.closed(number)]

    async def _recover(self, number: int) -> list[LogEffect]:
        """Recovers the last segment, unless another writer has taken the log over and recovers it instead."""
        under(self._epoch, lambda record: record)(await self._chain.refresh())
        async with dropped_by_rivals_only(self._chain, self._epoch):
            ended = await self._ledgers.recover(self._segment(number))
        assert ended.end_position is not None
        await self.producers.write(ended.end_position, self._time_us)
        await self._chain.change(under(self._epoch, last_ended(ended)))
        return self._machine.recovered(number, ended.end_position)

    async def _join(self, join: Join) -> list[LogEffect]:
        """Makes the one change that ends a segment and begins the next: a writer that takes over sees both effects or
        neither."""
        tail = self._handles[join.tail]
        begun = None if join.next is None else self._handles[join.next].ledger_id
        length = tail.record.length_bytes or 0
        end = Ended(tail.ledger_id, join.end_position, self._cut_us, length, self._next_us)
        await self.producers.write(join.end_position, self._time_us)
        record = await self._chain.change(under(self._epoch, joined(end, begun, self._epoch)))
        self._tasks.start(self.producers.drop_before(join.end_position))
        await self._handles.pop(join.tail).abandon()
        effects = self._machine.joined()
        if record.full_page():
            self._tasks.start(turn_full_pages(self._chain))
        return effects

    async def _discard(self, number: int) -> list[LogEffect]:
        await self._ledgers.discard(self._handles.pop(number))
        return []

    def _segment(self, number: int) -> Segment:
        """Returns the segment with this number from the log's record. Raises LogFenced if the record has no such
        segment, which happens if the metadata returned to an older state, an operator accepted this, and this writer's
        epoch was assigned again."""
        ledger_id, record = self._handles[number].ledger_id, self.record
        for segment in reversed(record.segments):
            if segment.ledger_id == ledger_id:
                return segment
        raise LogFenced(record.name, record.writer, record.epoch)

    def _finish(self, error: LedgerError | None) -> None:
        if self._finished.done():
            return
        if isinstance(error, Unconfirmed):
            error.first_unconfirmed, error.counts = self.confirmed_end, "position"
        self._finished.set_result(error)
        self._schedule.stop()
        closed = LogClosed(self.record.name, "it was closed before this record was confirmed")
        self._answers.fail(error or closed)
        self._tasks.start(self._abandon())
        self._made_progress()

    def _made_progress(self) -> None:
        self._room.set()
        self.on_progress()

    def _background_failed(self, error: BaseException) -> None:
        """Ends the writer after a bug; never called for protocol failures."""
        wrapped = LedgerError(f"the writer failed: {error!r}")
        wrapped.__cause__ = error
        self._perform(self._machine.fail(wrapped))

    async def _abandon(self) -> None:
        """Leaves the ledgers to the writer that takes the log over."""
        while self._handles:
            await self._handles.popitem()[1].abandon()

    async def abandon(self) -> None:
        """Abandons the log without closing it, as a crash would; unconfirmed appends fail."""
        self._closing = True
        self._perform(self._machine.fail(LogClosed(self.record.name, "its writer was abandoned")))
        await self._let_go()

    async def _let_go(self) -> None:
        """Stops this writer's timers and tasks, and abandons its ledgers."""
        self._schedule.stop()
        await self._tasks.close()
        await self._abandon()
