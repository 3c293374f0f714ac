"""How the settings of a client relate."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import ClientConfig
from ledgers.config import BYTES, COUNTS, FLAGS, MIB, ORDERED, PERIODS, SECRETS, WAITS


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"append_seconds_max": 61}, ("append_seconds_max (61)", "append_quorum_seconds_max (60)")),
        ({"speculative_read_seconds": 11.0}, ("speculative_read_seconds (11)", "read_seconds_max (10)")),
        ({"page_bytes": 64 * MIB}, ("page_bytes", "read_ahead_bytes_max")),
        ({"quarantine_seconds": 1}, ("failed_bookie_seconds (30)", "quarantine_seconds (1)")),
    ],
)
def test_settings_that_contradict_each_other_are_both_named(
    settings: dict[str, float], named: tuple[str, str]
) -> None:
    with pytest.raises(ValueError, match=".*".join(map(re.escape, named))):
        ClientConfig(**settings)  # type: ignore[arg-type]


def test_every_pair_of_settings_that_is_ordered_is_so_by_default() -> None:
    config = ClientConfig()
    assert all(getattr(config, smaller) <= getattr(config, larger) for smaller, larger in ORDERED)


def test_a_lane_holds_whatever_may_be_pending_and_one_entry_over() -> None:
    config = ClientConfig(pending_bytes_max=4 * MIB, lane_backlog_bytes_max=MIB)
    assert config.lane_bytes_max - config.pending_bytes_max >= ENTRY_BYTES_MAX


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("name", BYTES + COUNTS + WAITS + PERIODS)
@pytest.mark.parametrize("value", [NAN, INF, -INF, -1, "5", None, True, 2**70], ids=repr)
def test_what_is_no_such_setting_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        ClientConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("speculative_read_seconds", [NAN, INF, -1, "5", True], ""),
        ("delay_ensemble_change", ["no"], "True or False, not 'no'"),
        ("certificates", [5, b"path", ["a"]], "the path of a directory, as a str"),
        ("metrics", ["all"], "a prometheus_client.CollectorRegistry, or None"),
        ("tracing", ["all"], "an OpenTelemetry TracerProvider"),
        ("own_bookie", ["b1"], "the bookie that runs in this process"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_words(name: str, values: list[Any], why: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=re.escape(f"{name} must be {why}")):
            ClientConfig(**{name: value})


def test_every_setting_is_checked() -> None:
    checked = {
        *BYTES,
        *COUNTS,
        *WAITS,
        *PERIODS,
        *FLAGS,
        *SECRETS,
        "certificates",
        "metrics",
        "tracing",
        "own_bookie",
        "speculative_read_seconds",
    }
    assert {field.name for field in fields(ClientConfig)} == checked
