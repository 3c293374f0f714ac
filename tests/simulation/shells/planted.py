"""Bugs planted in the asyncio client, one at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bookie.wire import LacStatement
from ledgers.bookies.bookie_calls import BookieCalls
from ledgers.protocol.effects import ChangeRecord, RecoveryEffect
from ledgers.recovering import recover
from ledgers.tasks import Tasks
from ledgers.writing.signed_lac import SignedLac
from ledgers.writing.write_handle import WriteHandle
from metadata.errors import OutcomeUnknown
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord

Patch = pytest.MonkeyPatch


# --- write_handle ------------------------------------------------------------------------------


def answers_an_append_when_it_is_sent(patch: Patch) -> None:
    """The canary: found by nearly every seed, or the runs test nothing."""
    take = WriteHandle._take_waiting

    def broken(self: WriteHandle) -> None:
        take(self)
        if not self.has_ended:
            self._answers.accepted(self._machine.last_add_pushed)

    patch.setattr(WriteHandle, "_take_waiting", broken)


def tells_readers_what_is_not_confirmed(patch: Patch) -> None:
    def broken(self: SignedLac) -> LacStatement | None:
        pushed = self._machine.last_add_pushed
        return None if pushed < 0 else self._digester.sign_lac(pushed, self._machine.confirmed_length)

    patch.setattr(SignedLac, "now", broken)


def a_background_task_goes_on(patch: Patch) -> None:
    """`Tasks.close` forgets to cancel."""

    async def broken(self: Tasks) -> None:
        return None

    patch.setattr(Tasks, "close", broken)


# --- connections ------------------------------------------------------------------------------------


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

    async def broken(
        self: LedgerStore, record: LedgerRecord, version: int, **unless: bool
    ) -> VersionedRecord:
        try:
            async with asyncio.timeout(2.5):
                return await change(self, record, version, **unless)
        except (TimeoutError, OutcomeUnknown):
            return VersionedRecord(record, version + 1)

    patch.setattr(LedgerStore, "change", broken)
