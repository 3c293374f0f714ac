"""An auditor counts absences by its own clock, on top of what is recorded, and never more than it has seen."""

from __future__ import annotations

from bookie.upkeep.healing.auditor import TELL_SHARE, AbsenceCounts

WAIT_MS = 600_000


def test_what_passes_between_two_looks_is_added_to_what_is_recorded() -> None:
    counts = AbsenceCounts()
    assert counts.look({"b1": 200_000}, 1000.0, WAIT_MS) == {}, "nothing was seen to pass"
    assert counts.look({"b1": 200_000}, 1005.0, WAIT_MS) == {"b1": 205_000}
    assert counts.look({"b1": 205_000}, 1010.0, WAIT_MS) == {"b1": 210_000}


def test_what_passed_before_a_bookie_was_first_found_absent_does_not_count() -> None:
    counts = AbsenceCounts()
    counts.look({}, 1000.0, WAIT_MS)
    assert counts.look({"b1": 0}, 1005.0, WAIT_MS) == {}
    assert counts.look({"b1": 0}, 1010.0, WAIT_MS) == {"b1": 5_000}


def test_a_bookie_that_was_back_begins_anew() -> None:
    counts = AbsenceCounts()
    counts.look({"b1": 0}, 1000.0, WAIT_MS)
    counts.look({}, 1005.0, WAIT_MS)
    assert counts.look({"b1": 0}, 1010.0, WAIT_MS) == {}


def test_what_passed_while_the_auditor_could_not_look_does_not_count() -> None:
    """A bookie may have been back, and unable to register, as long as the metadata was away."""
    counts = AbsenceCounts()
    counts.look({"b1": 0}, 1000.0, WAIT_MS)
    counts.interrupted()
    assert counts.look({"b1": 0}, 5000.0, WAIT_MS) == {}
    assert counts.look({"b1": 0}, 5001.0, WAIT_MS) == {"b1": 1_000}


def test_a_long_absence_is_recorded_seldom_and_loses_nothing() -> None:
    counts, recorded, now, changes = AbsenceCounts(), WAIT_MS, 0.0, 0
    counts.look({"b1": recorded}, now, WAIT_MS)
    for _ in range(10_000):
        now += 5.0
        for ms in counts.look({"b1": recorded}, now, WAIT_MS).values():
            assert ms == WAIT_MS + now * 1000
            recorded, changes = ms, changes + 1
    assert recorded * (1 + 1 / TELL_SHARE) >= WAIT_MS + now * 1000
    assert changes < 60
