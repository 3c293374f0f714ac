"""Bugs planted in what a client knows of a log's end, and in what a producer sends again, one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from ledgers.logs import log_calls
from ledgers.logs.cursors.cursor import Cursor
from ledgers.logs.errors import NoSuchPosition
from ledgers.logs.known_end import KnownEnd
from ledgers.logs.log_reader import LogReader
from ledgers.logs.producers.producer_memory import ProducerMemory
from ledgers.logs.writing.writer_shell import WriterShell
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


# --- one end -------------------------------------------------------------------------------------------


@instead_of(KnownEnd, "advance_to", within=500, known=24)
def the_known_end_goes_back(self: KnownEnd, position: int) -> int:
    self.position = position
    return position


@around(WriterShell, "__init__", within=500, known=68)
def what_a_client_appends_does_not_count(init: Real, self: WriterShell, *about: Any) -> None:
    init(self, *about[:-1], KnownEnd())


@instead_of(LogReader, "check_reaches", within=500, known=24)
async def does_not_wait_for_what_another_client_confirmed(self: LogReader, position: int) -> None:
    if position > await self.end():
        raise self._not_there(position)


@around(Cursor, "flush", within=500, known=15)
async def a_refused_commit_poisons_the_cursor(flush: Real, self: Cursor) -> None:
    try:
        await flush(self)
    except NoSuchPosition as error:
        self.failure = error
        raise


@instead_of(Cursor, "note", within=500, known=15)
def commits_what_the_log_does_not_have(self: Cursor, position: int) -> bool:
    self._noted = max(self._noted, position)
    return self._writing is None or self._writing.done()


@bug(within=500, known=26)
def a_client_that_is_closed_leaves_its_writers_open(patch: Patch) -> None:
    async def broken(_: object) -> None:
        pass

    patch.setattr(log_calls, "close_writers", broken)


# --- producers that send again ---------------------------------------------------------------------------


@around(ProducerMemory, "_positions", within=500, known=3)
def a_batch_that_is_split_otherwise_is_stored_twice(
    positions: Real, self: ProducerMemory, producer: str, sequence: int, count: int
) -> Any:
    """Known is only what begins a run."""
    known = self._confirmed.get(producer)
    runs = [*(known.runs if known is not None else ()), *self._taken.get(producer, ())]
    return positions(self, producer, sequence, count) if any(run.sequence == sequence for run in runs) else ()
