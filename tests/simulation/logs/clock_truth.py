"""What times records may have: those of their appends, about, wherever bookies have told the writer what time it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ledgers.logs.record_batch import Record
from metadata.records.logs.segment import Segment
from tests.simulation.engine.world import Violation

if TYPE_CHECKING:
    from .site import LogSite

WRONG_SECONDS = 70.0
"""Twice the bound of a clock, and what bookies tell is late by: clocks that are wrong step by more."""


TOLD_SECONDS = 1.5
"""So long after that time all bookies have told it."""


class ClockTruth:
    """Who appended what and when, by the true time."""

    def __init__(self, site: LogSite) -> None:
        self._site = site
        self._appended: dict[bytes, tuple[float, float]] = {}
        self._asked: dict[int, float] = {}

    def took_over(self, epoch: int, asked_from: float) -> None:
        """A writer of this epoch has asked the bookies, at this time or later."""
        self._asked[epoch] = asked_from

    def appended(self, payloads: Iterable[bytes]) -> None:
        """A program appends these, perhaps again."""
        now = self._site.world.now
        for one in payloads:
            self._appended[one] = self._appended.get(one, (now, now))[0], now

    def check(self, records: Sequence[Record], segments: Sequence[Segment]) -> None:
        """In the end: within a segment times never go back, nor do they along the log, where no record counts as
        younger than the end of its segment. So they lead to the right positions."""
        before: tuple[int, int] = (-1, 0)
        ordered_us = 0
        for record in records:
            segment = next(one for one in segments if one.holds(record.position))
            if before[0] == segment.first_position and record.time < before[1]:
                raise self._broken(f"times go back in the segment of {record.position}")
            before = segment.first_position, record.time
            if (counts_us := min(record.time, segment.ended_us)) < ordered_us:
                raise self._broken(f"times go back along the log at {record.position}")
            ordered_us = counts_us
            self._check(record, segment)

    def _check(self, record: Record, segment: Segment) -> None:
        clocks = self._site.plan.clocks
        if clocks is None or self._asked.get(segment.epoch, 0.0) < clocks.told_from + TOLD_SECONDS:
            return
        first, last = self._appended[record.payload]
        at = (record.time - self._site.start_us) / 1_000_000
        if not first - WRONG_SECONDS <= at <= last + WRONG_SECONDS:
            raise self._broken(f"{record.position} has the time {at:.1f}, and was appended at {first:.1f}")

    def _broken(self, what: str) -> Violation:
        return self._site.truth._broken("L12", what)
