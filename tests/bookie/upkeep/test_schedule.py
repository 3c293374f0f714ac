"""Which round of upkeep is due."""

from __future__ import annotations

import pytest

from bookie.upkeep.schedule import LOW_SPACE_SECONDS, Depth, Schedule
from bookie.upkeep_config import UpkeepConfig

CONFIG = UpkeepConfig(collection_seconds=10, minor_compaction_seconds=100, major_compaction_seconds=1000)


def test_a_bookie_that_has_just_started_owes_nothing() -> None:
    assert Schedule.starting(CONFIG, 5.0).due(5.0, space_is_low=True) is None


@pytest.mark.parametrize(
    ("now", "depth"),
    [(9.9, None), (10.0, Depth.COLLECT), (99.9, Depth.COLLECT), (100.0, Depth.MINOR), (1000.0, Depth.MAJOR)],
)
def test_the_deepest_round_that_is_due_comes_first(now: float, depth: Depth | None) -> None:
    assert Schedule.starting(CONFIG, 0.0).due(now, space_is_low=False) is depth


def test_a_round_stands_for_the_lesser_ones_and_not_for_the_deeper_ones() -> None:
    schedule = Schedule.starting(CONFIG, 0.0)
    schedule.done(Depth.MINOR, 100.0)
    assert schedule.due(109.0, space_is_low=False) is None
    assert schedule.due(110.0, space_is_low=False) is Depth.COLLECT
    schedule.done(Depth.COLLECT, 110.0)
    assert schedule.due(200.0, space_is_low=False) is Depth.MINOR
    assert schedule.due(1000.0, space_is_low=False) is Depth.MAJOR
    schedule.done(Depth.MAJOR, 1000.0)
    assert schedule.due(1009.0, space_is_low=False) is None


def test_a_disk_that_is_nearly_full_is_compacted_at_once_and_not_all_the_time() -> None:
    schedule = Schedule.starting(CONFIG, 0.0)
    assert schedule.due(LOW_SPACE_SECONDS, space_is_low=True) is Depth.MAJOR
    schedule.done(Depth.MAJOR, LOW_SPACE_SECONDS)
    assert schedule.due(LOW_SPACE_SECONDS + 9, space_is_low=True) is None


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="live ratio"):
        UpkeepConfig(minor_live_ratio=0.9)
    with pytest.raises(ValueError, match="interval above 0"):
        UpkeepConfig(collection_seconds=0)
    with pytest.raises(ValueError, match="would never finish"):
        UpkeepConfig(scrub_bytes_per_second=1)
