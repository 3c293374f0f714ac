"""Numbers for people, and words of strangers that stay words."""

from __future__ import annotations

import pytest

from bookledger.console.rendering import ENVIRONMENT, count, duration, moment, rate, size, took


def test_numbers_are_shown_in_the_unit_that_fits() -> None:
    assert count(1234567) == "1\u202f234\u202f567"
    assert [count(None), size(None), took(None), duration(None)] == ["–"] * 4
    assert [size(0), size(1536), size(200 * 1024), size(2**70)] == [
        "0 B",
        "1.5 KiB",
        "200 KiB",
        "1048576 PiB",
    ]
    assert [took(0.0012), took(0.25)] == ["1.2 ms", "250 ms"]
    assert [duration(5), duration(65), duration(3700), duration(90_000)] == [
        "5 s",
        "1 min 5 s",
        "1 h 1 min",
        "1 d 1 h",
    ]
    assert [rate(0), rate(0.25), rate(123.4)] == ["0", "0.2", "123"]


@pytest.mark.parametrize("ms", [2**63, -(2**63)])
def test_a_record_may_say_any_time(ms: int) -> None:
    assert moment(ms) == "–"


def test_words_of_strangers_are_no_markup() -> None:
    shown = ENVIRONMENT.get_template("wrong.html").render(page="wrong", title="<script>", why='"><img src=x>')
    assert "<script>" not in shown.partition("</head>")[2]
    assert "<img src=x>" not in shown
    assert "&lt;img src=x&gt;" in shown
