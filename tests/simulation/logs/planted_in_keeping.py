"""Bugs planted in retention, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from bookie.upkeep.logs.silence_counts import SilenceCounts
from metadata import keys
from metadata.records import directory_generations
from metadata.records import records_pb2 as pb
from metadata.records.logs import retention
from metadata.records.logs.retention import CountedCursor, EndedSegment
from metadata.records.logs.silences import Silences
from metadata.store import MetadataStore, list_all
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


@instead_of(directory_generations, "time_ms", within=1000, known=35)
async def believes_the_clock_that_is_ahead(store: MetadataStore) -> int:
    return max([pb.Life.FromString(item.value).at_ms async for item in list_all(store, keys.LIVES)])


@instead_of(CountedCursor, "has_read", within=1000, known=54)
def gives_up_what_a_cursor_is_in_the_middle_of(self: CountedCursor, segment: EndedSegment) -> bool:
    return self.position is not None and self.position > segment.first_position


@around(CountedCursor, "has_read", within=1000, known=31)
def a_cursor_that_is_not_there_keeps_nothing(
    has_read: Real, self: CountedCursor, segment: EndedSegment
) -> Any:
    return self.position is None or has_read(self, segment)


@bug(within=1000, known=61)
def takes_a_segment_to_be_as_old_as_its_first_record(patch: Patch) -> None:
    kept: Callable[..., tuple[str, int | None] | None] = retention._kept

    def broken(settled: retention.Retention, segment: EndedSegment, *others: object) -> object:
        begun_us = getattr(segment, "begun_us")  # noqa: B009
        return kept(settled, segment.ended(segment.end_position, begun_us, segment.length_bytes), *others)  # type: ignore[attr-defined]

    patch.setattr(retention, "_kept", broken)


@around(SilenceCounts, "look", within=2000, known=906)
def two_auditors_count_a_silence_twice(
    look: Real, self: SilenceCounts, recorded: Silences, behind: Mapping[str, int], now: float
) -> Any:
    self._recorded_at = recorded.version
    return look(self, recorded, behind, now)


@around(SilenceCounts, "look", within=1000, known=260)
def counts_a_silence_on_when_the_cursor_has_moved(
    look: Real, self: SilenceCounts, recorded: Silences, behind: Mapping[str, int], now: float
) -> Any:
    return look(self, recorded, dict.fromkeys(behind, 1), now)


@bug(within=1000, known=35)
def gives_up_one_segment_too_many(patch: Patch) -> None:
    judge = retention.judge

    def broken(settled: retention.Retention, head: Sequence[EndedSegment], *others: object) -> object:
        found = judge(settled, head, *others)  # type: ignore[arg-type]
        if found.before is None or found.next is None:
            return found
        return retention.Judgement(found.next.end_position, None)

    patch.setattr("metadata.records.logs.retention_view.judge", broken)
