"""Bugs planted in the asyncio client, one at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bookie.wire import LacStatement
from ledgers.bookies.bookie_calls import BookieCalls
from ledgers.bookies.signed_lac import SignedLac
from ledgers.tasks import Tasks
from ledgers.writing.write_handle import WriteHandle
from metadata.errors import OutcomeUnknown
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.version import Version
from tests.simulation.engine.planted import Real, around, instead_of

Patch = pytest.MonkeyPatch


# --- write_handle ------------------------------------------------------------------------------


@around(WriteHandle, "_take_waiting", within=10, known=0)
def answers_an_append_when_it_is_sent(take: Real, self: WriteHandle) -> None:
    """The canary: found by nearly every seed, or the runs test nothing."""
    take(self)
    if not self.has_ended:
        self._answers.accepted(self._machine.last_add_pushed)


@instead_of(SignedLac, "now", within=50, known=0)
def tells_readers_what_is_not_confirmed(self: SignedLac) -> LacStatement | None:
    pushed = self._machine.last_add_pushed
    return None if pushed < 0 else self._digester.sign_lac(pushed, self._machine.confirmed_length)


@instead_of(Tasks, "close", within=40, known=1)
async def a_background_task_goes_on(self: Tasks) -> None:
    """`Tasks.close` forgets to cancel."""


# --- connections ------------------------------------------------------------------------------------


@instead_of(BookieCalls, "close", within=100, known=0)
async def leaves_connections_open(self: BookieCalls) -> None:
    """`BookieCalls.close` forgets its connection."""
    self._is_closed = True


# --- recover, settle -------------------------------------------------------------------------------


@around(LedgerStore, "change", within=400, known=58)
async def takes_a_lost_answer_for_success(
    change: Real, self: LedgerStore, record: LedgerRecord, version: int, **unless: bool
) -> Any:
    """F17"""
    try:
        async with asyncio.timeout(2.5):
            return await change(self, record, version, **unless)
    except (TimeoutError, OutcomeUnknown):
        return VersionedRecord(record, Version(version + 1))
