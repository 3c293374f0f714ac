"""Bugs that this layer found, each with the smallest plan that shows it."""

from __future__ import annotations

from functools import partial

from ledgers.logs.writing.log_pipeline import LogEffect
from ledgers.logs.writing.writer_shell import WriterShell
from ledgers.writing.write_handle import WriteHandle
from tests.simulation.engine.found import Found

from .plan import FailLedgers, Figures, Plan, Term, Writer
from .planted import Patch, deletes_the_segment_of_a_change_whose_answer_was_lost


def tells_nobody_of_a_ledger_that_failed_before_it_was_adopted(patch: Patch) -> None:
    def broken(self: WriterShell, number: int, handle: WriteHandle) -> None:
        self._handles[number] = handle
        handle.on_progress = partial(self._progressed, number, handle)

    patch.setattr(WriterShell, "_adopt", broken)


def looks_for_its_segment_before_it_knows_that_the_log_is_its_own(patch: Patch) -> None:
    true = WriterShell._recover

    async def broken(self: WriterShell, number: int) -> list[LogEffect]:
        self._segment(number)
        return await true(self, number)

    patch.setattr(WriterShell, "_recover", broken)


FOUND = (
    Found(
        "L6: a take-over whose answer was lost, and that a rival overtook, deleted the segment that it had added",
        Plan(
            seed=332,
            writers=(Writer(at=10.0), Writer(at=0.0), Writer(at=0.0)),
            figures=Figures(loss=0.05),
            roll_seconds=5.0,
            page_segments=1,
        ),
        deletes_the_segment_of_a_change_whose_answer_was_lost,
        "L6",
    ),
    Found(
        "liveness: a ledger failed between its making and the first append; nobody was told, and appends waited",
        Plan(
            seed=539,
            writers=(Writer(at=10.0), Writer(at=0.13364834525850638)),
            events=(FailLedgers(at=3.0),),
            pace_seconds=0.1,
            roll_records=1000,
            page_segments=4,
        ),
        tells_nobody_of_a_ledger_that_failed_before_it_was_adopted,
        "liveness",
    ),
    Found(
        "errors: a writer whose log was taken over looked for its segment in the other one's record, and broke off",
        Plan(
            seed=570,
            writers=(
                Writer(at=0.0),
                Writer(
                    at=13.0,
                    terms=(
                        Term(batches=3, pause=2.0),
                        Term(batches=3, records=7, together=10, pause=2.0, ends="crash"),
                        Term(batches=10, pause=0.02, ends="abandon"),
                    ),
                ),
                Writer(at=14.250225019560771),
            ),
            figures=Figures(slow=0.05),
            roll_records=2,
            roll_seconds=5.0,
            page_segments=1,
        ),
        looks_for_its_segment_before_it_knows_that_the_log_is_its_own,
        "errors",
    ),
)
