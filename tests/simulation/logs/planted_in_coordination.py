"""Bugs planted in elections and in sets of logs, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ledgers.elections.place import Place
from ledgers.elections.term import Term
from ledgers.logs.record_batch import RecordBatch
from ledgers.logs.sets.log_set import LogSet, _grown
from ledgers.logs.sets.set_consumption import SetConsumption, Share
from ledgers.logs.sets.set_writer import LogSetWriter
from metadata.records.coordination import log_shares
from metadata.records.coordination.log_set_record import LogSetRecord
from metadata.records.coordination.log_shares import Owners
from metadata.records.logs.log_record import LogRecord
from tests.simulation.engine.planted import Plant

Patch = pytest.MonkeyPatch


# --- elections ---------------------------------------------------------------------------------------


def a_leader_of_an_earlier_term_is_not_refused(patch: Patch) -> None:
    def broken(self: LogRecord, election: str, token: int) -> bool:
        return False

    patch.setattr(LogRecord, "refuses", broken)


def a_leader_does_not_look_whether_its_term_is_over(patch: Patch) -> None:
    patch.setattr(Term, "check", lambda self: None)


def leads_once_the_one_before_it_has_gone(patch: Patch) -> None:
    """That one may have been waiting, too."""

    async def broken(self: Place) -> bool:
        queue = await self._candidates.queue()
        before = queue.before(self.candidate)
        if before is not None:
            await self._candidates.gone(before, queue.revision)
        return True

    patch.setattr(Place, "_until_first", broken)


# --- sets --------------------------------------------------------------------------------------------


def grows_without_fencing_the_writers(patch: Patch) -> None:
    async def broken(self: LogSet) -> LogSetRecord:
        record = await self.refresh()
        if record.growing_to:
            await self._make_logs(record)
            ends = tuple([await (await self.log(n)).end() for n in range(record.logs)])
            record = await self._change(_grown(record, ends))
        return record

    patch.setattr(LogSet, "_settled", broken)


def a_writer_does_not_look_whether_the_set_has_grown_meanwhile(patch: Patch) -> None:
    async def broken(self: LogSet, name: str | None = None) -> LogSetWriter:
        record, writer = await self._settled(), LogSetWriter()
        for n in range(record.logs):
            writer.writers.append(await (await self.log(n)).writer(name))
        return writer

    patch.setattr(LogSet, "writer", broken)


def uses_a_new_log_before_the_one_that_its_keys_come_from(patch: Patch) -> None:
    async def broken(self: SetConsumption, before: tuple[int, int] | None) -> None:
        pass

    patch.setattr(SetConsumption, "_until_used", broken)


def commits_a_batch_when_it_is_offered(patch: Patch) -> None:
    offer = Share.offer

    async def broken(
        self: Share, batch: RecordBatch, ready: asyncio.Queue[tuple[Share, RecordBatch]]
    ) -> None:
        assert self.consumption is not None
        assert self.consumption.cursor is not None
        if self.consumption.cursor.note(batch.positions[-1] + 1):
            self.consumption.cursor.start_writing()
        await offer(self, batch, ready)

    patch.setattr(Share, "offer", broken)


def goes_on_with_a_log_that_another_member_has_by_now(patch: Patch) -> None:
    patch.setattr(Share, "is_over", property(lambda self: self.consumption is None))


def shares_no_logs_that_a_set_has_got_since(patch: Patch) -> None:
    shared = log_shares.shared

    def broken(owners: Sequence[str], members: Sequence[str], logs: int) -> Owners:
        return shared(owners, members, len(owners) or logs)

    patch.setattr(log_shares, "shared", broken)


def a_group_begins_with_new_logs_where_it_began_with_the_others(patch: Patch) -> None:
    patch.setattr(SetConsumption, "_start_of", lambda self, number: self._start)


def gives_its_logs_up_only_where_none_has_failed(patch: Patch) -> None:
    def broken(self: SetConsumption) -> None:
        self._adopt(set(), LogSetRecord(1))

    patch.setattr(SetConsumption, "_give_up", broken)


PLANTS = (
    Plant(
        (
            a_leader_of_an_earlier_term_is_not_refused,
            a_leader_does_not_look_whether_its_term_is_over,
        ),
        1000,
        208,
    ),
    Plant((leads_once_the_one_before_it_has_gone,), 1000, 481),
    Plant((grows_without_fencing_the_writers,), 1000, 74),
    Plant((a_writer_does_not_look_whether_the_set_has_grown_meanwhile,), 1000, 299),
    Plant((uses_a_new_log_before_the_one_that_its_keys_come_from,), 1000, 74),
    Plant((commits_a_batch_when_it_is_offered,), 1000, 60),
    Plant((goes_on_with_a_log_that_another_member_has_by_now,), 1000, 479),
    Plant((a_group_begins_with_new_logs_where_it_began_with_the_others,), 1000, 303),
    Plant((gives_its_logs_up_only_where_none_has_failed,), 1000, 336),
    Plant((shares_no_logs_that_a_set_has_got_since,), 1000, 38),
)
