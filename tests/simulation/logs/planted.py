"""Bugs planted in the log's code, one at a time, to see that random schedules would find such a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledgers.errors import NoSuchEntry, NoSuchLedger
from ledgers.logs import log_chain, log_reader, log_segment_ledgers, segment_pages
from ledgers.logs.log import Log
from ledgers.logs.log_chain import LogChain
from ledgers.logs.log_reader import LogReader, LogSegmentReader
from ledgers.logs.log_segment_ledgers import LogSegmentLedgers
from ledgers.logs.producers import producer_state_manager
from ledgers.logs.producers.producer_memory import ProducerMemory
from ledgers.logs.producers.producer_state_manager import ProducerStateManager
from ledgers.logs.writing import takeover, writer_shell
from ledgers.logs.writing.log_pipeline import ConfirmRecords, LogEffect, LogPipeline, Tail
from ledgers.logs.writing.log_writer import LogWriter
from ledgers.logs.writing.writer_shell import WriterShell
from metadata.errors import VersionConflict
from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs import log_ledgers, segment_deletion
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import POSITION_MAX, Segment
from metadata.records.logs.segment_deletion import Cleaner
from metadata.store import Versioned
from tests.simulation.engine.planted import Real, around, bug, instead_of

from .ledgers import ModelWriter

Patch = pytest.MonkeyPatch


# --- writers -----------------------------------------------------------------------------------------


@around(LogPipeline, "progressed", within=500, known=5)
def confirms_the_next_segment_before_the_last_one_has_ended(
    progressed: Real, self: LogPipeline, number: int, last_entry: int
) -> Any:
    effects = progressed(self, number, last_entry)
    slot = self._next
    if slot is not None and slot.number == number and slot.end_position > self.confirmed_end:
        self.confirmed_end = slot.end_position
        effects = [*effects, ConfirmRecords(slot.end_position)]
    return effects


@bug(within=500, known=2)
def adds_segments_under_any_epoch(patch: Patch) -> None:
    for module in (takeover, writer_shell, log_chain):
        patch.setattr(module, "under", lambda epoch, transition: transition)


@instead_of(LogChain, "change", within=500, known=3)
async def takes_a_conflict_for_success(self: LogChain, transition: log_chain.Transition) -> LogRecord:
    """The record is read again, and the change is taken to be in it."""
    wanted = transition(self.record)
    if wanted != self.record:
        try:
            self.take(await self._replaced(wanted, self.found.version))
        except VersionConflict:
            await self.refresh()
    return self.record


@instead_of(LogSegmentLedgers, "recover", within=500, known=2)
async def takes_over_without_recovering(self: LogSegmentLedgers, segment: Segment) -> Segment:
    """The last segment is taken to end where readers know that it is confirmed."""
    reader = await self.open(segment)
    end = segment.first_position + reader.last_add_confirmed + 1
    return segment.ended(end, 0, 0)


@around(LogPipeline, "roll", within=500, known=3)
def begins_one_position_too_late(roll: Real, self: LogPipeline, ahead: int = 0) -> Any:
    if ahead == 0 and self.may_roll and self._tail.end_position < self.next_position:
        self.next_position += 1
    return roll(self, ahead)


@around(LogPipeline, "recovered", within=500, known=3)
def does_not_append_again_what_is_behind_a_recovered_end(
    recovered: Real, self: LogPipeline, number: int, end_position: int
) -> Any:
    return recovered(self, number, self.next_position if end_position < self.next_position else end_position)


@instead_of(LogPipeline, "_must_drop_next", within=500, known=3)
def keeps_a_next_segment_that_begins_elsewhere(self: LogPipeline) -> bool:
    slot = self._next
    return slot is not None and (slot.failed or self._is_closing)


@instead_of(WriterShell, "_recover", within=500, known=2)
async def recovers_without_looking_whose_the_log_is(self: WriterShell, number: int) -> list[LogEffect]:
    ended = await self._ledgers.recover(self._segment(number))
    assert ended.end_position is not None
    await self._chain.change(lambda record: record.ended(ended))
    return self._machine.recovered(number, ended.end_position)


@instead_of(WriterShell, "_recover", within=1000, known=570)
async def looks_up_a_segment_before_it_looks_whose_the_log_is(
    self: WriterShell, number: int
) -> list[LogEffect]:
    """A later writer has dropped it as empty, and the record is known by then: the look-up fails."""
    mine = self._handles[number].ledger_id
    segment = next(one for one in reversed(self.record.segments) if one.ledger_id == mine)
    log_chain.under(self._epoch, lambda record: record)(await self._chain.refresh())
    ended = await self._ledgers.recover(segment)
    assert ended.end_position is not None
    await self.producers.write(ended.end_position, self._time_us)
    await self._chain.change(log_chain.under(self._epoch, lambda record: record.ended(ended)))
    return self._machine.recovered(number, ended.end_position)


@instead_of(WriterShell, "_adopt", within=500, known=19)
def does_not_hear_of_a_ledger_that_failed_before_it_was_added(
    self: WriterShell, number: int, handle: ModelWriter
) -> None:
    """Its appends wait for ever."""
    self._handles[number] = handle  # type: ignore[assignment]
    handle.on_progress = partial(self._progressed, number, handle)  # type: ignore[arg-type]


@around(LogPipeline, "_advance", within=500, known=3)
def joins_without_closing_the_last_segment(advance: Real, self: LogPipeline) -> Any:
    effects = advance(self)
    if self._state is Tail.CLOSING and self._next is not None:
        self._state = Tail.ENDED
        self._tail.end_position = self._next.first_position
        return [*effects[:-1], *self._join()]
    return effects


@around(WriterShell, "_take", within=500, known=2)
def times_go_back_with_the_clock(
    take: Real, self: WriterShell, records: list[bytes], size_bytes: int
) -> None:
    self._time_us = 0
    take(self, records, size_bytes)


# --- producers ----------------------------------------------------------------------------------------


@instead_of(producer_state_manager, "_read_segment", within=500, known=20)
async def takes_over_without_reading_the_last_segment(
    memory: ProducerMemory, ledgers: LogSegmentLedgers, segment: Segment
) -> None:
    """What producers have appended since it began is not known."""


@bug(within=500, known=12)
def ends_a_segment_before_what_is_known_of_producers_is_kept(patch: Patch) -> None:
    """Whoever takes over in between finds a segment without that, and takes every producer for a new one."""
    write = ProducerStateManager.write

    async def later(self: ProducerStateManager, position: int, time_us: int) -> None:
        await asyncio.sleep(1.0)
        await write(self, position, time_us)

    async def broken(self: ProducerStateManager, position: int, time_us: int) -> None:
        self._later = asyncio.get_running_loop().create_task(later(self, position, time_us))  # type: ignore[attr-defined]

    async def unknown(*_: object) -> ProducerMemory:
        return ProducerMemory()

    patch.setattr(ProducerStateManager, "write", broken)
    patch.setattr(producer_state_manager, "_read_all", unknown)


@instead_of(LogWriter, "_complete_at", within=500, known=20)
def answers_a_retry_before_the_record_is_confirmed(self: LogWriter, position: Any, future: Any) -> Any:
    return future.set_result(position)


@bug(within=500, known=3)
def drops_what_the_last_segment_needs(patch: Patch) -> None:
    """With the next one's snapshot, and the log is not read instead."""
    drop = ProducerStateManager.drop_before

    async def broken(self: ProducerStateManager, position: int) -> None:
        await drop(self, position + 1)

    async def unknown(*_: object) -> ProducerMemory:
        return ProducerMemory()

    patch.setattr(ProducerStateManager, "drop_before", broken)
    patch.setattr(producer_state_manager, "_read_all", unknown)


@instead_of(ProducerStateManager, "begin", within=500, known=3)
async def notes_no_producer_in_the_log(self: ProducerStateManager, confirmed_end: int) -> None:
    return


# --- readers ------------------------------------------------------------------------------------------


@bug(within=500, known=1)
def skips_a_segment_when_one_ends(patch: Patch) -> None:
    """The next one is the last of the record, wherever that begins: it is read from its own first record on."""

    async def broken(self: LogReader, position: int) -> LogSegmentReader | None:
        record = await self._chain.refresh()
        self._check_left(position)
        last = record.last
        if last is None or position >= (last.end_position or 2**63):
            return None
        patch.setattr(LogSegmentReader, "_entry", lambda self, at: max(0, at - self.segment.first_position))
        return LogSegmentReader(last, await self._ledgers.open(last), self._known.position)

    patch.setattr(LogReader, "_opened_at", broken)


@instead_of(LogReader, "_check_dropped", within=500, known=7)
async def takes_a_segment_that_was_dropped_for_one_that_is_lost(self: LogReader, segment: Segment) -> None:
    raise NoSuchLedger(segment.ledger_id)


@instead_of(LogReader, "_check_left", within=500, known=23)
def reads_what_was_given_up(self: LogReader, position: Any) -> None:
    pass


@instead_of(LogReader, "_opened_at", within=500, known=3)
async def ends_a_tail_with_its_segment(self: LogReader, position: int) -> LogSegmentReader | None:
    record = await self._chain.refresh()
    segment = record.segment_of(position)
    if segment is None:
        raise NoSuchEntry(0, position, 0)
    return LogSegmentReader(segment, await self._ledgers.open(segment), self._known.position)


@instead_of(log_reader, "segment_at_time", within=500, known=1)
async def finds_times_in_the_wrong_page(chain: LogChain, time_us: int) -> Segment | None:
    return chain.record.last


# --- what was given up ----------------------------------------------------------------------------------


@instead_of(LogRecord, "dead_segments", within=500, known=4)
def gives_up_the_segment_with_the_first_position(self: LogRecord) -> tuple[Segment, ...]:
    return tuple(s for s in self.segments if s.end_position is not None and s.first_position < self._kept)


@instead_of(LogRecord, "truncated", within=500, known=167)
def a_truncation_may_go_back(self: LogRecord, first: Any) -> Any:
    return replace(self, first_position=first)


@bug(within=500, known=195)
def deletes_under_a_legal_hold(patch: Patch) -> None:
    async def truncate(self: Log, before: int) -> None:
        await self.refresh()
        await self._chain.change(lambda record: record.truncated(before))
        self._cleaning.start(self._chain, self._cluster.who)

    async def delete(self: Cleaner, ledger_id: int, _: Sequence[Segment]) -> bool:
        found = await self._ledgers.read(ledger_id)
        if found is not None:
            await segment_deletion._delete(self._ledgers, found, await self._look())
        return True

    patch.setattr(Log, "truncate", truncate)
    patch.setattr(Cleaner, "_delete", delete)


@bug(within=1000, known=459)
def leaves_what_is_given_up_in_the_chain(patch: Patch) -> None:
    """A hold that begins between the look for one and the deletion finds it there."""

    def truncated(self: LogRecord, first_position: int) -> LogRecord:
        return replace(self, first_position=max(first_position, self.first_position))

    def is_needed(
        log: LogRecord, ledger: LedgerRecord, said: SegmentOf, segments: tuple[Segment, ...]
    ) -> bool:
        mine = [s for s in log.segments if s.ledger_id == ledger.ledger_id]
        gone = not log.legal_hold and any(
            (s.end_position or POSITION_MAX) <= log.first_position for s in mine
        )
        return not gone and log_ledgers.is_needed(log, ledger, said, segments)

    patch.setattr(LogRecord, "truncated", truncated)
    patch.setattr("metadata.records.logs.segment_deletion.is_needed", is_needed)


@instead_of(segment_deletion, "is_needed", within=500, known=151)
def an_audit_deletes_what_a_living_writer_has_made(
    log: LogRecord, ledger: LedgerRecord, said: SegmentOf, segments: tuple[Segment, ...]
) -> bool:
    """Before that is added to the log."""
    return any(s.ledger_id == ledger.ledger_id for s in segments)


@instead_of(segment_deletion, "is_needed", within=500, known=0)
def nobody_deletes_what_dead_writers_made(*_: Any) -> Any:
    return True


@bug(within=500, known=14)
def lets_go_of_segments_before_they_are_in_a_page(patch: Patch) -> None:
    """Whoever looks in between finds them nowhere."""

    async def broken(chain: LogChain, page: tuple[Segment, ...]) -> None:
        await chain.change(lambda record: record.without_page(page))
        await chain.logs.put_page(chain.record.identity, page)

    patch.setattr("ledgers.logs.segment_pages.turn_page", broken)
    patch.setattr(segment_pages, "turn_page", broken)


@instead_of(LogStore, "_may_lead_to", within=500, known=130)
async def a_name_is_free_while_its_log_is_renamed(self: LogStore, identity: bytes, item: Versioned) -> bool:
    log = await self.led_to(item)
    return log is None or log.record.deleted or log.record.identity == identity


@bug(within=1000, known=332)
def deletes_the_segment_of_a_change_whose_answer_was_lost(patch: pytest.MonkeyPatch) -> None:
    """A rival was faster to take over; the segment is in the log all the same."""

    async def is_not(*_: Any) -> bool:
        return False

    patch.setattr(takeover, "_may_name", lambda *_: False)
    patch.setattr(log_segment_ledgers, "is_in_log", is_not)
