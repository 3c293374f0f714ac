"""Bugs that this layer found, each with the smallest plan that shows it."""

from __future__ import annotations

from tests.simulation.engine.found import Found

from .plan import FailLedgers, Figures, Plan, Term, Writer
from .planted import (
    deletes_the_segment_of_a_change_whose_answer_was_lost,
    does_not_hear_of_a_ledger_that_failed_before_it_was_added,
    looks_up_a_segment_before_it_looks_whose_the_log_is,
)

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
        "a writer whose empty segment a later one had dropped fell over instead of saying that it was followed",
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
        looks_up_a_segment_before_it_looks_whose_the_log_is,
        "errors",
    ),
    Found(
        "a ledger failed while it was added to the log: its writer never heard of it, and appends waited for ever",
        Plan(
            seed=539,
            writers=(Writer(at=10.0), Writer(at=0.13364834525850638)),
            events=(FailLedgers(at=3.0),),
            pace_seconds=0.1,
            roll_records=1000,
            page_segments=4,
        ),
        does_not_hear_of_a_ledger_that_failed_before_it_was_added,
        "liveness",
    ),
)
