"""Bugs planted in the asyncio client and the data protocol, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from bookie.wire import Ack, Columns, LacStatement
from ledgers.bookies.append_stream import AppendStream
from ledgers.bookies.bookie_calls import BookieCalls
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.protocol.effects import ChangeRecord, RecoveryEffect
from ledgers.reading.range_read import RangeRead
from ledgers.reading.read_handle import ReadHandle
from ledgers.recovering import recover
from ledgers.tasks import Tasks
from ledgers.writing.advanced_write_handle import AdvancedWriteHandle
from ledgers.writing.append_futures import AppendFutures
from ledgers.writing.signed_lac import SignedLac
from ledgers.writing.write_handle import WriteHandle
from metadata.errors import OutcomeUnknown
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord

Patch = pytest.MonkeyPatch


# --- write_handle, advanced_write_handle -----------------------------------------------------------


def answers_an_append_when_it_is_sent(patch: Patch) -> None:
    """The canary: found by nearly every seed, or the runs test nothing."""
    take = WriteHandle._take_waiting

    def broken(self: WriteHandle) -> None:
        take(self)
        if not self.has_ended:
            self._answers.accepted(self._machine.last_add_pushed)

    def accepted(self: AppendFutures, through: int) -> None:
        self._answered_through = max(self._answered_through, through)
        while self._appends and self._appends[0][0] <= through:
            last_entry, future = self._appends.popleft()
            if not future.done():
                future.set_result(last_entry)

    patch.setattr(WriteHandle, "_take_waiting", broken)
    patch.setattr(AppendFutures, "accepted", accepted)


def a_cancelled_append_gives_its_answer_to_the_next(patch: Patch) -> None:
    def broken(self: AppendFutures, through: int) -> None:
        entry_id = self._answered_through + 1
        while entry_id <= through and self._appends:
            _, future = self._appends.popleft()
            if not future.done():
                future.set_result(entry_id)
                entry_id += 1
        self._answered_through = entry_id - 1

    patch.setattr(AppendFutures, "accepted", broken)


def closes_without_flushing(patch: Patch) -> None:
    async def broken(self: WriteHandle) -> None:
        self._closing = True
        self._perform(self._machine.close())
        error = await asyncio.shield(self._finished)
        await self._let_go()
        if error is not None:
            raise error

    patch.setattr(WriteHandle, "close", broken)


def tells_readers_what_is_not_confirmed(patch: Patch) -> None:
    def broken(self: SignedLac) -> LacStatement | None:
        pushed = self._machine.last_add_pushed
        return None if pushed < 0 else self._digester.sign_lac(pushed, self._machine.confirmed_length)

    patch.setattr(SignedLac, "now", broken)


def an_ended_writer_answers_nobody(patch: Patch) -> None:
    patch.setattr(AppendFutures, "fail", lambda self, error: None)


def a_background_task_goes_on(patch: Patch) -> None:
    """`Tasks.close` forgets to cancel."""

    async def broken(self: Tasks) -> None:
        return None

    patch.setattr(Tasks, "close", broken)


def sends_early_entries_as_they_come(patch: Patch) -> None:
    """The advanced writer numbers by arrival, not by the caller's ids."""

    def broken(self: AdvancedWriteHandle) -> None:
        for entry_id in list(self._early):
            payload, future = self._early.pop(entry_id)
            self._writer.submit(payload, future)
            self._next = max(self._next, entry_id + 1)

    patch.setattr(AdvancedWriteHandle, "_send_what_is_due", broken)


# --- connections, append_stream, connected_bookies ---------------------------------------------------


def matches_acks_with_the_latest_frame(patch: Patch) -> None:
    acked = AppendStream._acked

    def broken(self: AppendStream, ack: Ack) -> None:
        latest = max(self._in_flight, default=ack.sequence)
        acked(self, Ack(latest, ack.status, ack.detail))

    patch.setattr(AppendStream, "_acked", broken)


def keeps_using_a_broken_stream(patch: Patch) -> None:
    patch.setattr(ConnectedBookies, "_retire", lambda self, stream: None)


def leaves_connections_open(patch: Patch) -> None:
    """`BookieCalls.close` forgets its connection."""

    async def broken(self: BookieCalls) -> None:
        self._is_closed = True

    patch.setattr(BookieCalls, "close", broken)


# --- recover, settle -------------------------------------------------------------------------------


def believes_in_its_close_before_it_stands(patch: Patch) -> None:
    """A recovery returns the closed record when it has sent the closing change, not when that is made."""
    perform = recover.RecoveryRun._perform

    def broken(self: Any, effects: list[RecoveryEffect]) -> None:
        for effect in effects:
            perform(self, [effect])
            if isinstance(effect, ChangeRecord):
                self._end(VersionedRecord(effect.record, self._version.version))

    patch.setattr(recover.RecoveryRun, "_perform", broken)


def takes_a_lost_answer_for_success(patch: Patch) -> None:
    """F17"""
    change = LedgerStore.change

    async def broken(self: LedgerStore, record: LedgerRecord, version: int) -> VersionedRecord:
        try:
            async with asyncio.timeout(2.5):
                return await change(self, record, version)
        except (TimeoutError, OutcomeUnknown):
            return VersionedRecord(record, version + 1)

    patch.setattr(LedgerStore, "change", broken)


# --- reading ---------------------------------------------------------------------------------------


def takes_the_end_of_a_scan_for_the_end_of_the_range(patch: Patch) -> None:
    columns = RangeRead.columns

    async def broken(self: RangeRead, first: int, last: int) -> AsyncGenerator[Columns, None]:
        scan = self._scanner.scan_from(first, last, self._window_entries(), ())
        pages = columns(self, first, last) if scan is None else self._scanner.pages(scan)
        async with aclosing(pages):
            async for page in pages:
                yield page

    patch.setattr(RangeRead, "columns", broken)


def a_tail_ends_at_the_close_with_entries_left(patch: Patch) -> None:
    tail = ReadHandle.tail

    async def broken(self: ReadHandle, start: int = 0) -> AsyncGenerator[Any, None]:
        async with aclosing(tail(self, start)) as entries:
            async for entry in entries:
                yield entry
                if self.is_closed:
                    return

    patch.setattr(ReadHandle, "tail", broken)
