"""Bugs planted in the log's code, one at a time, to see that random schedules would find such a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest

from ledgers.errors import NoSuchEntry, NoSuchLedger
from ledgers.logs import log_chain, segment_pages
from ledgers.logs.log import Log
from ledgers.logs.log_chain import LogChain
from ledgers.logs.producers import recollection
from ledgers.logs.producers.memory import ProducerMemory
from ledgers.logs.producers.recollection import Recollection
from ledgers.logs.reading.log_reader import LogReader
from ledgers.logs.reading.open_segment import OpenSegment
from ledgers.logs.segment_ledgers import SegmentLedgers
from ledgers.logs.writing import take_over, writer_shell
from ledgers.logs.writing.log_pipeline import Confirm, LogEffect, LogPipeline, Tail
from ledgers.logs.writing.log_writer import LogWriter
from ledgers.logs.writing.writer_shell import WriterShell
from metadata import keys
from metadata.errors import VersionConflict
from metadata.records.logs import log_codec, log_ledgers
from metadata.records.logs.giving_up import Cleaner
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import POSITION_MAX, LogRecord, Segment
from metadata.records.logs.log_store import LogPage, LogStore
from tests.simulation.engine.planted import Plant

from .ledgers import ModelWriter

Patch = pytest.MonkeyPatch


# --- writers -----------------------------------------------------------------------------------------


def confirms_the_next_segment_before_the_last_one_has_ended(patch: Patch) -> None:
    progressed = LogPipeline.progressed

    def broken(self: LogPipeline, number: int, last_entry: int) -> list[LogEffect]:
        effects = progressed(self, number, last_entry)
        slot = self._next
        if slot is not None and slot.number == number and slot.end_position > self.confirmed_end:
            self.confirmed_end = slot.end_position
            effects = [*effects, Confirm(slot.end_position)]
        return effects

    patch.setattr(LogPipeline, "progressed", broken)


def adds_segments_under_any_epoch(patch: Patch) -> None:
    for module in (take_over, writer_shell, log_chain):
        patch.setattr(module, "under", lambda epoch, transition: transition)


def takes_a_conflict_for_success(patch: Patch) -> None:
    """The record is read again, and the change is taken to be in it."""

    async def broken(self: LogChain, transition: log_chain.Transition) -> LogRecord:
        wanted = transition(self.record)
        if wanted != self.record:
            try:
                await self._write(wanted)
            except VersionConflict:
                await self.refresh()
        return self.record

    patch.setattr(LogChain, "change", broken)


def takes_over_without_recovering(patch: Patch) -> None:
    """The last segment is taken to end where readers know that it is confirmed."""

    async def broken(self: SegmentLedgers, segment: Segment) -> Segment:
        reader = await self.open(segment)
        end = segment.first_position + reader.last_add_confirmed + 1
        return segment.ended(end, 0, 0)

    patch.setattr(SegmentLedgers, "recover", broken)


def begins_one_position_too_late(patch: Patch) -> None:
    roll = LogPipeline.roll

    def broken(self: LogPipeline, ahead: int = 0) -> list[LogEffect]:
        if ahead == 0 and self.may_roll and self._tail.end_position < self.next_position:
            self.next_position += 1
        return roll(self, ahead)

    patch.setattr(LogPipeline, "roll", broken)


def does_not_append_again_what_is_behind_a_recovered_end(patch: Patch) -> None:
    recovered = LogPipeline.recovered

    def broken(self: LogPipeline, number: int, end_position: int) -> list[LogEffect]:
        return recovered(
            self, number, self.next_position if end_position < self.next_position else end_position
        )

    patch.setattr(LogPipeline, "recovered", broken)


def keeps_a_next_segment_that_begins_elsewhere(patch: Patch) -> None:
    def broken(self: LogPipeline) -> bool:
        slot = self._next
        return slot is not None and (slot.failed or self._is_closing)

    patch.setattr(LogPipeline, "_must_drop_next", broken)


def recovers_without_looking_whose_the_log_is(patch: Patch) -> None:
    async def broken(self: WriterShell, number: int) -> list[LogEffect]:
        ended = await self._ledgers.recover(self._segment(number))
        assert ended.end_position is not None
        await self._chain.change(lambda record: record.ended(ended))
        return self._machine.recovered(number, ended.end_position)

    patch.setattr(WriterShell, "_recover", broken)


def looks_up_a_segment_before_it_looks_whose_the_log_is(patch: Patch) -> None:
    """A later writer has dropped it as empty, and the record is known by then: the look-up fails."""

    async def broken(self: WriterShell, number: int) -> list[LogEffect]:
        segment = self._segment(number)
        log_chain.under(self._epoch, lambda record: record)(await self._chain.refresh())
        ended = await self._ledgers.recover(segment)
        assert ended.end_position is not None
        await self.producers.write(ended.end_position, self._time_us)
        await self._chain.change(log_chain.under(self._epoch, lambda record: record.ended(ended)))
        return self._machine.recovered(number, ended.end_position)

    patch.setattr(WriterShell, "_recover", broken)


def does_not_hear_of_a_ledger_that_failed_before_it_was_added(patch: Patch) -> None:
    """Its appends wait for ever."""

    def broken(self: WriterShell, number: int, handle: ModelWriter) -> None:
        self._handles[number] = handle  # type: ignore[assignment]
        handle.on_progress = partial(self._progressed, number, handle)  # type: ignore[arg-type]

    patch.setattr(WriterShell, "_adopt", broken)


def joins_without_closing_the_last_segment(patch: Patch) -> None:
    advance = LogPipeline._advance

    def broken(self: LogPipeline) -> list[LogEffect]:
        effects = advance(self)
        if self._state is Tail.CLOSING and self._next is not None:
            self._state = Tail.ENDED
            self._tail.end_position = self._next.first_position
            return [*effects[:-1], *self._join()]
        return effects

    patch.setattr(LogPipeline, "_advance", broken)


def times_go_back_with_the_clock(patch: Patch) -> None:
    take = WriterShell._take

    def broken(self: WriterShell, records: list[bytes], size_bytes: int) -> None:
        self._time_us = 0
        take(self, records, size_bytes)

    patch.setattr(WriterShell, "_take", broken)


# --- producers ----------------------------------------------------------------------------------------


def takes_over_without_reading_the_last_segment(patch: Patch) -> None:
    """What producers have appended since it began is not known."""

    async def broken(memory: ProducerMemory, ledgers: SegmentLedgers, segment: Segment) -> None:
        return

    patch.setattr(recollection, "_read_segment", broken)


def ends_a_segment_before_what_is_known_of_producers_is_kept(patch: Patch) -> None:
    """Whoever takes over in between finds a segment without that, and takes every producer for a new one."""
    write = Recollection.write

    async def later(self: Recollection, position: int, time_us: int) -> None:
        await asyncio.sleep(1.0)
        await write(self, position, time_us)

    async def broken(self: Recollection, position: int, time_us: int) -> None:
        self._later = asyncio.get_running_loop().create_task(later(self, position, time_us))  # type: ignore[attr-defined]

    async def unknown(*_: object) -> ProducerMemory:
        return ProducerMemory()

    patch.setattr(Recollection, "write", broken)
    patch.setattr(recollection, "_read_all", unknown)


def answers_a_retry_before_the_record_is_confirmed(patch: Patch) -> None:
    patch.setattr(LogWriter, "_complete_at", lambda self, position, future: future.set_result(position))


def refuses_a_sequence_before_the_later_one_is_confirmed(patch: Patch) -> None:
    """Its producer takes it to be stored, and the writer may fail before it is."""

    async def broken(self: LogWriter, producer: str, sequence: int, count: int) -> range:
        await self.until_its_turn()
        return self.producers.take(producer, sequence, count, self.next_position)

    patch.setattr(LogWriter, "_earlier", broken)


def drops_what_the_last_segment_needs(patch: Patch) -> None:
    """With the next one's snapshot, and the log is not read instead."""
    drop = Recollection.drop_before

    async def broken(self: Recollection, position: int) -> None:
        await drop(self, position + 1)

    async def unknown(*_: object) -> ProducerMemory:
        return ProducerMemory()

    patch.setattr(Recollection, "drop_before", broken)
    patch.setattr(recollection, "_read_all", unknown)


def notes_no_producer_in_the_log(patch: Patch) -> None:
    async def broken(self: Recollection, confirmed_end: int) -> None:
        return

    patch.setattr(Recollection, "begin", broken)


# --- readers ------------------------------------------------------------------------------------------


def skips_a_segment_when_one_ends(patch: Patch) -> None:
    """The next one is the last of the record, wherever that begins: it is read from its own first record on."""

    async def broken(self: LogReader, position: int) -> OpenSegment | None:
        record = await self._chain.refresh()
        self._check_left(position)
        last = record.last
        if last is None or position >= (last.end_position or 2**63):
            return None
        patch.setattr(OpenSegment, "_entry", lambda self, at: max(0, at - self.segment.first_position))
        return OpenSegment(last, await self._ledgers.open(last))

    patch.setattr(LogReader, "_opened_at", broken)


def takes_a_segment_that_was_dropped_for_one_that_is_lost(patch: Patch) -> None:
    async def broken(self: LogReader, segment: Segment) -> None:
        raise NoSuchLedger(segment.ledger_id)

    patch.setattr(LogReader, "_check_dropped", broken)


def reads_what_was_given_up(patch: Patch) -> None:
    patch.setattr(LogReader, "_check_left", lambda self, position: None)


def ends_a_tail_with_its_segment(patch: Patch) -> None:
    async def broken(self: LogReader, position: int) -> OpenSegment | None:
        record = await self._chain.refresh()
        segment = record.segment_of(position)
        if segment is None:
            raise NoSuchEntry(0, position, 0)
        return OpenSegment(segment, await self._ledgers.open(segment))

    patch.setattr(LogReader, "_opened_at", broken)


def finds_times_in_the_wrong_page(patch: Patch) -> None:
    async def broken(chain: LogChain, time_us: int) -> Segment | None:
        return chain.record.last

    patch.setattr("ledgers.logs.reading.log_reader.segment_at_time", broken)


def takes_a_page_that_is_gone_for_the_end_of_the_pages(patch: Patch) -> None:
    """Its key by time was written late, when the page had been deleted: segments of later pages are passed over."""

    async def broken(self: LogStore, identity: bytes, time_us: int) -> LogPage | None:
        after = keys.log_time(identity, time_us)
        found = await self.store.list_page(keys.log_times(identity), after=after, limit=1)
        if not found.items:
            return None
        end = log_codec.decode_page_time(found.items[0].key, found.items[0].value)
        page = await self.page_of(identity, end - 1)
        return page if page is not None and page.key == keys.log_page(identity, end) else None

    patch.setattr(LogStore, "page_of_time", broken)


# --- what was given up ----------------------------------------------------------------------------------


def gives_up_the_segment_with_the_first_position(patch: Patch) -> None:
    def broken(self: LogRecord) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if s.end_position is not None and s.first_position < self._kept)

    patch.setattr(LogRecord, "dead_segments", broken)


def a_truncation_may_go_back(patch: Patch) -> None:
    patch.setattr(LogRecord, "truncated", lambda self, first: replace(self, first_position=first))


def deletes_under_a_legal_hold(patch: Patch) -> None:
    async def truncate(self: Log, before: int) -> None:
        await self.refresh()
        await self._chain.change(lambda record: record.truncated(before))
        self._cleaning.start(self._chain, self._ledgers)

    async def delete_all(self: Cleaner, ledger_ids: Iterable[int]) -> bool:
        for ledger_id in ledger_ids:
            await self._delete(ledger_id)
        return True

    patch.setattr(Log, "truncate", truncate)
    patch.setattr(Cleaner, "_delete_all", delete_all)


def leaves_what_is_given_up_in_the_chain(patch: Patch) -> None:
    """A hold that begins between the look for one and the deletion finds it there."""

    def truncated(self: LogRecord, first_position: int) -> LogRecord:
        return replace(self, first_position=max(first_position, self.first_position))

    def is_needed(log: LogRecord, ledger_id: int, said: SegmentOf, segments: tuple[Segment, ...]) -> bool:
        mine = [s for s in log.segments if s.ledger_id == ledger_id]
        gone = not log.legal_hold and any(
            (s.end_position or POSITION_MAX) <= log.first_position for s in mine
        )
        return not gone and log_ledgers.is_needed(log, ledger_id, said, segments)

    patch.setattr(LogRecord, "truncated", truncated)
    patch.setattr("bookie.upkeep.logs.unneeded_segments.is_needed", is_needed)


def an_audit_deletes_what_a_living_writer_has_made(patch: Patch) -> None:
    """Before that is added to the log."""

    def broken(log: LogRecord, ledger_id: int, said: SegmentOf, segments: tuple[Segment, ...]) -> bool:
        return any(s.ledger_id == ledger_id for s in segments)

    patch.setattr("bookie.upkeep.logs.unneeded_segments.is_needed", broken)


def nobody_deletes_what_dead_writers_made(patch: Patch) -> None:
    patch.setattr("bookie.upkeep.logs.unneeded_segments.is_needed", lambda *_: True)


def lets_go_of_segments_before_they_are_in_a_page(patch: Patch) -> None:
    """Whoever looks in between finds them nowhere."""

    async def broken(chain: LogChain, page: tuple[Segment, ...]) -> None:
        await chain.change(lambda record: record.without_page(page))
        await chain.logs.put_page(chain.record.identity, page)

    patch.setattr("ledgers.logs.segment_pages.turn_page", broken)
    patch.setattr(segment_pages, "turn_page", broken)


def a_name_is_free_while_its_log_is_renamed(patch: Patch) -> None:
    async def broken(self: LogStore, name: str, identity: bytes) -> bool:
        log = await self.read(identity)
        return log is None or log.record.deleted or log.record.name != name

    patch.setattr(LogStore, "_is_free", broken)


def deletes_the_segment_of_a_change_whose_answer_was_lost(patch: Patch) -> None:
    """A rival was faster to take over; the segment is in the log all the same."""
    patch.setattr(take_over, "_may_name", lambda *_: False)


PLANTS = (
    Plant((confirms_the_next_segment_before_the_last_one_has_ended,), 500, 5),
    Plant((adds_segments_under_any_epoch,), 500, 2),
    Plant((takes_a_conflict_for_success,), 500, 3),
    Plant((takes_over_without_recovering,), 500, 2),
    Plant((begins_one_position_too_late,), 500, 3),
    Plant((does_not_append_again_what_is_behind_a_recovered_end,), 500, 3),
    Plant((keeps_a_next_segment_that_begins_elsewhere,), 500, 3),
    Plant((recovers_without_looking_whose_the_log_is,), 500, 2),
    Plant((looks_up_a_segment_before_it_looks_whose_the_log_is,), 1000, 570),
    Plant((does_not_hear_of_a_ledger_that_failed_before_it_was_added,), 1000, 19),
    Plant((joins_without_closing_the_last_segment,), 500, 0),
    Plant((times_go_back_with_the_clock,), 500, 2),
    Plant((takes_over_without_reading_the_last_segment,), 500, 20),
    Plant((ends_a_segment_before_what_is_known_of_producers_is_kept,), 500, 12),
    Plant((answers_a_retry_before_the_record_is_confirmed,), 500, 20),
    Plant((refuses_a_sequence_before_the_later_one_is_confirmed,), 500, 3),
    Plant((drops_what_the_last_segment_needs,), 500, 3),
    Plant((notes_no_producer_in_the_log,), 500, 3),
    Plant((skips_a_segment_when_one_ends,), 500, 0),
    Plant((takes_a_segment_that_was_dropped_for_one_that_is_lost,), 500, 6),
    Plant((reads_what_was_given_up,), 500, 23),
    Plant((ends_a_tail_with_its_segment,), 500, 3),
    Plant((finds_times_in_the_wrong_page,), 500, 0),
    Plant((takes_a_page_that_is_gone_for_the_end_of_the_pages,), 2000, 1133),
    Plant((leaves_what_is_given_up_in_the_chain,), 1000, 459),
    Plant((gives_up_the_segment_with_the_first_position,), 500, 4),
    Plant((a_truncation_may_go_back,), 500, 167),
    Plant((deletes_under_a_legal_hold,), 500, 195),
    Plant((an_audit_deletes_what_a_living_writer_has_made,), 500, 151),
    Plant((nobody_deletes_what_dead_writers_made,), 500, 0),
    Plant((lets_go_of_segments_before_they_are_in_a_page,), 500, 14),
    Plant((a_name_is_free_while_its_log_is_renamed,), 500, 130),
    Plant((deletes_the_segment_of_a_change_whose_answer_was_lost,), 1000, 332),
)
