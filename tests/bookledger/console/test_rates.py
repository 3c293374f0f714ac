"""What a bookie does a second, from what it counted at two moments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.wire import InfoReply
from bookledger.console.rates import Chart, Rates, between, together

BEFORE = InfoReply(
    "b1", "i1", "c1", "1", 10, 5, 100, 1000, 10, False, 7, 70, (0.001, 0.01, 0.1), (10, 0, 0, 0)
)
AFTER = replace(
    BEFORE, entries_added=300, bytes_added=5000, syncs=20, entries_read=9, bytes_read=90,
    append_counts=(60, 40, 0, 0),
)  # fmt: skip


def test_what_has_grown_is_told_by_the_second() -> None:
    rates = between(BEFORE, AFTER, 2.0)
    assert rates == Rates(100, 2000, 1, 10, 5, (0.001, 0.01, 0.1), (50, 40, 0, 0))


def test_a_bookie_that_started_anew_has_no_rate_over_that() -> None:
    assert between(BEFORE, replace(AFTER, entries_added=5), 2.0) is None
    assert between(BEFORE, replace(AFTER, append_counts=(0, 0, 0, 0)), 2.0) is None
    assert between(BEFORE, replace(AFTER, incarnation="i2"), 2.0) is None
    assert between(BEFORE, AFTER, 0.0) is None


def test_a_quantile_lies_where_its_share_of_the_appends_was_on_disk() -> None:
    rates = Rates(bounds=(0.001, 0.01, 0.1), appends=(50, 50, 0, 0))
    assert rates.quantile(0.5) == pytest.approx(0.001)
    assert rates.quantile(0.75) == pytest.approx(0.0055)
    assert Rates(bounds=(0.001,), appends=(0, 4)).quantile(0.99) == 0.001  # slower than the last bound
    assert Rates().quantile(0.99) is None


def test_bookies_together_do_what_each_does() -> None:
    one = Rates(1, 2, 3, 4, 5, (0.1,), (1, 1))
    old = Rates(1, 2, 3, 4, 5)  # of a program that tells no times
    assert together([one, old, one]) == Rates(3, 6, 9, 12, 15, (0.1,), (2, 2))
    assert together([]) == Rates()


def test_a_line_has_its_highest_value_at_the_top_and_nothing_outside() -> None:
    assert Chart((0, 5, 10)).points(100, 32) == "0.0,31.0 50.0,16.0 100.0,1.0"
    assert Chart((0, 0)).points(100, 32) == "0.0,31.0 100.0,31.0"
    assert [Chart(values).is_drawn for values in ((), (7,), (7, 7))] == [False, False, True]
    assert [Chart(values).top for values in ((), (7, 9, 8))] == [0, 9]
