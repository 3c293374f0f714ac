"""How long cursors have stood still is counted by auditors' own clocks, and by no two of them twice."""

from __future__ import annotations

from bookie.upkeep.logs.silence_counts import LOOK_SECONDS_MAX, SilenceCounts
from metadata.records.logs.silences import Silence, Silences
from metadata.version import Version

NOTHING = Silences()


def test_what_passes_between_two_looks_counts_while_the_cursor_stands() -> None:
    counts = SilenceCounts()
    assert counts.look(NOTHING, {"billing": 7}, 100.0) == {"billing": 0}
    assert counts.look(NOTHING, {"billing": 7}, 130.0) == {"billing": 30_000}
    assert counts.look(NOTHING, {"billing": 8}, 160.0) == {"billing": 0}, "it has moved"
    assert counts.look(NOTHING, {}, 190.0) == {}
    assert counts.look(NOTHING, {"billing": 8}, 220.0) == {"billing": 0}, "it kept nothing meanwhile"


def test_an_auditor_goes_on_from_what_others_have_recorded_of_the_same_version() -> None:
    recorded = Silences({"billing": Silence(7, 90_000)}, version=Version(3))
    assert SilenceCounts().look(recorded, {"billing": 7}, 5.0) == {"billing": 90_000}
    assert SilenceCounts().look(recorded, {"billing": 8}, 5.0) == {"billing": 0}


def test_two_auditors_at_once_do_not_count_the_same_time_twice() -> None:
    one, other, recorded, passed = SilenceCounts(), SilenceCounts(), NOTHING, 0
    for now in range(0, 3600, 61):
        for counts in (one, other):
            silent = counts.look(recorded, {"billing": 7}, float(now))
            assert silent["billing"] <= now * 1000
            told = counts.to_record(silent)
            if told is not None:
                recorded = Silences(told, Version(recorded.version + 1))
                counts.recorded(recorded.version)
        passed = now
    assert recorded.of("billing", 7) >= passed * 1000 / 2


def test_an_auditor_that_was_away_counts_little_of_it() -> None:
    counts = SilenceCounts()
    counts.look(NOTHING, {"billing": 7}, 0.0)
    assert counts.look(NOTHING, {"billing": 7}, 10**6)["billing"] == LOOK_SECONDS_MAX * 1000


def test_a_silence_is_recorded_once_it_has_grown_by_enough() -> None:
    counts = SilenceCounts()
    counts.look(NOTHING, {"billing": 7, "audit": 1}, 0.0)
    silent = counts.look(NOTHING, {"billing": 7, "audit": 2}, 59.0)
    assert counts.to_record(silent) is None
    silent = counts.look(NOTHING, {"billing": 7, "audit": 2}, 60.0)
    assert counts.to_record(silent) == {"billing": Silence(7, 60_000), "audit": Silence(2, 1_000)}
    day = Silences({"billing": Silence(7, 86_400_000)}, version=Version(1))
    counts = SilenceCounts()
    counts.look(day, {"billing": 7}, 0.0)
    assert counts.to_record(counts.look(day, {"billing": 7}, 600.0)) is None
