"""Bugs planted in elections and in sets of logs, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ledgers.elections.place import Place
from ledgers.elections.term import Term
from ledgers.logs.cursors.consumption import Consumption
from ledgers.logs.cursors.poll_watch import PollWatch
from ledgers.logs.record_batch import RecordBatch
from ledgers.logs.sets.log_set import LogSet, _settled_from
from ledgers.logs.sets.set_consumption import AssignedLog, SetConsumption
from metadata.records.coordination import log_shares
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_set_record import LogSetRecord
from tests.simulation.engine.planted import Real, around, bug, instead_of, together

Patch = pytest.MonkeyPatch


# --- elections ---------------------------------------------------------------------------------------


@instead_of(LogRecord, "refuses")
def a_leader_of_an_earlier_term_is_not_refused(self: LogRecord, election: str, token: int) -> bool:
    return False


@instead_of(Term, "check")
def a_leader_does_not_look_whether_its_term_is_over(self: Term) -> None:
    pass


NOBODY_LOOKS_WHO_LEADS = together(
    a_leader_of_an_earlier_term_is_not_refused,
    a_leader_does_not_look_whether_its_term_is_over,
    within=1000,
    known=208,
)


@instead_of(Place, "_until_first", within=1000, known=481)
async def leads_once_the_one_before_it_has_gone(self: Place) -> bool:
    """That one may have been waiting, too."""
    queue = await self._candidates.queue()
    before = queue.before(self.candidate)
    if before is not None:
        await self._candidates.gone(before, queue.revision)
    return True


# --- sets --------------------------------------------------------------------------------------------


@instead_of(LogSet, "_settled", within=1000, known=74)
async def grows_without_fencing_the_writers(self: LogSet) -> LogSetRecord:
    record = await self.refresh()
    if record.growing_to or record.is_unsettled:
        await self._settle_logs(record)
        ends = tuple([await (await self.log(n)).end() for n in range(record.logs)])
        record = await self._state.change(_settled_from(record, ends))
    return record


@instead_of(SetConsumption, "_until_used", within=1000, known=74)
async def uses_a_new_log_before_the_one_that_its_keys_come_from(
    self: SetConsumption, before: tuple[int, int] | None
) -> None:
    pass


@around(AssignedLog, "offer", within=1000, known=60)
async def commits_a_batch_when_it_is_offered(
    offer: Real, self: AssignedLog, batch: RecordBatch, ready: asyncio.Queue[tuple[AssignedLog, RecordBatch]]
) -> None:
    assert self.consumption is not None
    assert self.consumption.cursor is not None
    if self.consumption.cursor.note(batch.positions[-1] + 1):
        self.consumption.cursor.start_writing()
    await offer(self, batch, ready)


@bug(within=1000, known=299)
def goes_on_with_a_log_that_another_member_has_by_now(patch: Patch) -> None:
    patch.setattr(AssignedLog, "is_over", property(lambda self: self.consumption is None))


@around(log_shares, "shared", within=1000, known=38)
def shares_no_logs_that_a_set_has_got_since(
    shared: Real, owners: Sequence[str], members: Sequence[str], logs: int
) -> Any:
    return shared(owners, members, len(owners) or logs)


@instead_of(SetConsumption, "_start_of", within=1000, known=311)
def a_group_begins_with_new_logs_where_it_began_with_the_others(self: SetConsumption, number: Any) -> Any:
    return self._start


@instead_of(SetConsumption, "_give_up", within=1000, known=336)
def gives_its_logs_up_only_where_none_has_failed(self: SetConsumption) -> None:
    self._adopt(set(), LogSetRecord(1, LogRecord(bytes(16), "set")))


# --- consumers that are stuck ------------------------------------------------------------------------


@around(SetConsumption, "_until_used", within=1000, known=159)
async def a_truncated_log_ends_the_member_at_once(
    until: Real, self: SetConsumption, before: tuple[int, int] | None
) -> None:
    if self._truncated is not None:
        raise self._truncated
    await until(self, before)


@around(Consumption, "_oldest_left", within=1000, known=60)
def goes_on_behind_the_oldest_record_that_is_left(oldest: Real, self: Consumption, *about: Any) -> int:
    return int(oldest(self, *about)) + 1


@instead_of(SetConsumption, "_unread", within=1000, known=87)
async def a_member_ends_by_its_timeout_while_the_lease_of_a_dead_one_runs(
    self: SetConsumption, numbers: Any
) -> dict[int, int]:
    return {}


@instead_of(PollWatch, "until_exceeded", within=1000, known=53)
async def one_that_hangs_keeps_its_logs(self: PollWatch) -> None:
    await asyncio.Event().wait()
