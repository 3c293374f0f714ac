"""Numbers for people, and words of strangers that stay words."""

from __future__ import annotations

import re

import pytest

from bookledger.console.rates import Chart
from bookledger.console.rendering import ENVIRONMENT, count, duration, moment, rate, size, took


def test_numbers_are_shown_in_the_unit_that_fits() -> None:
    assert count(1234567) == "1,234,567"
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


MARKED_NOW = {"ledger_id": 7, "since_seconds": 3, "reasons": ["b4 is lost"], "tries": 0, "why_not": ""}
AWAY = {"ledger_id": 7, "bookies": ["b4"]}
LOST = {"condition": "lost", "bookie_id": "b4"}


@pytest.mark.parametrize(
    ("counted_seconds_ago", "to_copy_bytes", "away", "copies", "told"),
    [
        (None, None, [], [], ("–", "unknown", "being counted")),
        (4.0, None, [], [], ("–", "unknown", "being counted")),  # others live now
        (4.0, 0, [], [LOST], ("–", "unknown", "being counted")),
        (2.0, 0, [], [LOST], ("0 B", "nothing to do", "estimated from the metadata")),
        (4.0, 0, [], [], ("0 B", "nothing to do", "estimated from the metadata")),
        (4.0, 0, [AWAY], [], ("0 B", "unknown", "absent bookies may come back")),
        (4.0, 1536, [], [LOST], ("1.5 KiB", "unknown", "nothing is copied at this moment")),
    ],
)
def test_healing_does_not_say_that_there_is_nothing_to_do_before_that_was_counted(
    counted_seconds_ago: float | None,
    to_copy_bytes: int | None,
    away: list[object],
    copies: list[object],
    told: tuple[str, ...],
) -> None:
    found = {
        "braked": False,
        "absent": [],
        "auditor": "b1",
        "healing": [],
        "more": False,
        "moving_ledgers": 0,
        "bytes_per_second": 0,
        "seconds_left": None,
        "to_copy_bytes": to_copy_bytes,
        "away": away,
        "away_bytes": 1536 if away else 0,
        "lost_after_seconds": 600,
        "counted_seconds_ago": counted_seconds_ago,
    }
    marked_now = [] if away else [{**MARKED_NOW, "copies": copies}]
    marked = {"under_replicated": marked_now, "next": None}
    shown = ENVIRONMENT.get_template("healing.html").render(
        page="healing", title="Healing", found=found, marked=marked, first=0
    )
    size, left, note = told
    assert f"<dt>To be copied</dt>\n  <dd>{size}</dd>" in shown
    assert f"<dt>Time left</dt>\n  <dd>{left}</dd>" in shown
    assert ("every known copy is in place" in shown) is False
    assert ("copied once they are absent for 10 min 0 s" in shown and ">b4<" in shown) is bool(away)
    assert note in shown and ("being counted" in shown) is (note == "being counted")


def test_a_chart_has_a_scale_that_is_read_aloud_too() -> None:
    parts = ENVIRONMENT.get_template("parts.html").make_module({})
    shown = parts.tile("Stored", "5", "", Chart((0, 10, 5), 178.2), "10 B/s")  # type: ignore[attr-defined]
    assert 'role="img"' in shown and 'aria-label="Stored, in the last 2 min 58 s: from 0 to 10 B/s"' in shown
    assert re.findall(r'aria-hidden="true">([^<]*)<', shown) == ["10 B/s", "0", "2 min 58 s ago", "now"]
    first = parts.tile("Stored", "5", "", Chart((5,)), "5 B/s")  # type: ignore[attr-defined]
    assert "polyline" not in first and "ago" not in first, "one value makes no line"
