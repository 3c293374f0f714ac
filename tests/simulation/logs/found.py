"""Bugs that this layer found, each with the smallest plan that shows it."""

from __future__ import annotations

from tests.simulation.engine.found import Found

from .plan import Figures, Plan, Writer
from .planted import deletes_the_segment_of_a_change_whose_answer_was_lost

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
)
