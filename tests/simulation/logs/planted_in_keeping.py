"""Bugs planted in retention, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from bookie.upkeep.logs.silence_counts import SilenceCounts
from metadata import keys
from metadata.records import directory_generations
from metadata.records import records_pb2 as pb
from metadata.records.logs import retention
from metadata.records.logs.retention import CountedCursor, EndedSegment
from metadata.records.logs.silences import Silences
from metadata.store import MetadataStore, list_all
from tests.simulation.engine.planted import Plant

Patch = pytest.MonkeyPatch


def believes_the_clock_that_is_ahead(patch: Patch) -> None:
    async def broken(store: MetadataStore) -> int:
        return max([pb.Life.FromString(item.value).at_ms async for item in list_all(store, keys.LIVES)])

    patch.setattr(directory_generations, "time_ms", broken)


def gives_up_what_a_cursor_is_in_the_middle_of(patch: Patch) -> None:
    def broken(self: CountedCursor, segment: EndedSegment) -> bool:
        return self.position is not None and self.position > segment.first_position

    patch.setattr(CountedCursor, "has_read", broken)


def a_cursor_that_is_not_there_keeps_nothing(patch: Patch) -> None:
    has_read = CountedCursor.has_read

    def broken(self: CountedCursor, segment: EndedSegment) -> bool:
        return self.position is None or has_read(self, segment)

    patch.setattr(CountedCursor, "has_read", broken)


def takes_a_segment_to_be_as_old_as_its_first_record(patch: Patch) -> None:
    kept: Callable[..., tuple[str, int | None] | None] = retention._kept

    def broken(settled: retention.Retention, segment: EndedSegment, *others: object) -> object:
        begun_us = getattr(segment, "begun_us")  # noqa: B009
        return kept(settled, segment.ended(segment.end_position, begun_us, segment.length_bytes), *others)  # type: ignore[attr-defined]

    patch.setattr(retention, "_kept", broken)


def two_auditors_count_a_silence_twice(patch: Patch) -> None:
    look = SilenceCounts.look

    def broken(
        self: SilenceCounts, recorded: Silences, behind: Mapping[str, int], now: float
    ) -> dict[str, int]:
        self._recorded_at = recorded.version
        return look(self, recorded, behind, now)

    patch.setattr(SilenceCounts, "look", broken)


def counts_a_silence_on_when_the_cursor_has_moved(patch: Patch) -> None:
    look = SilenceCounts.look

    def broken(
        self: SilenceCounts, recorded: Silences, behind: Mapping[str, int], now: float
    ) -> dict[str, int]:
        return look(self, recorded, dict.fromkeys(behind, 1), now)

    patch.setattr(SilenceCounts, "look", broken)


def gives_up_one_segment_too_many(patch: Patch) -> None:
    judge = retention.judge

    def broken(settled: retention.Retention, head: Sequence[EndedSegment], *others: object) -> object:
        found = judge(settled, head, *others)  # type: ignore[arg-type]
        if found.before is None or found.next is None:
            return found
        return retention.Judgement(found.next.end_position, None)

    patch.setattr("metadata.records.logs.retained.judge", broken)


PLANTS = (
    Plant((believes_the_clock_that_is_ahead,), 1000, 35),
    Plant((gives_up_what_a_cursor_is_in_the_middle_of,), 1000, 54),
    Plant((a_cursor_that_is_not_there_keeps_nothing,), 1000, 31),
    Plant((takes_a_segment_to_be_as_old_as_its_first_record,), 1000, 61),
    Plant((two_auditors_count_a_silence_twice,), 2000, 906),
    Plant((counts_a_silence_on_when_the_cursor_has_moved,), 1000, 100),
    Plant((gives_up_one_segment_too_many,), 1000, 26),
)
