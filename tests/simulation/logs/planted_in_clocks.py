"""Bugs planted in what makes wrong clocks harmless, one at a time."""

from __future__ import annotations

from typing import Any

from ledgers.logs.writing.record_clock import RecordClock
from metadata.records.logs.segment import Segment
from tests.simulation.engine.planted import Real, around, instead_of


@around(RecordClock, "now_us", within=500, known=17)
def believes_the_clock_of_its_machine(now_us: Real, self: RecordClock) -> Any:
    """Seed 63 finds it, too."""
    self._behind_bookies_us = None
    return now_us(self)


@around(RecordClock, "begin_us", within=500, known=17)
def begins_behind_a_time_that_cannot_be(begin_us: Real, self: RecordClock, last_us: int) -> Any:
    """Seed 152 finds it, too."""
    return max(begin_us(self, last_us), last_us)


@instead_of(Segment, "before", within=500, known=152)
def leaves_a_segment_its_time_that_cannot_be(self: Segment, time_us: int) -> Segment:
    """Seed 17 finds it, too."""
    del time_us
    return self
