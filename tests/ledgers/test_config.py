"""How the settings of a client relate."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from opentelemetry.trace import NoOpTracerProvider
from prometheus_client import CollectorRegistry

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


@pytest.mark.parametrize("value", [NAN, INF, -1, "5", True])
def test_a_patience_that_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^speculative_read_seconds must be"):
        ClientConfig(speculative_read_seconds=value)  # type: ignore[arg-type]


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(ValueError, match=r"^delay_ensemble_change must be True or False, not 'no'"):
        ClientConfig(delay_ensemble_change="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [5, b"path", ["a"]])
def test_certificates_are_the_path_of_a_directory(value: object) -> None:
    with pytest.raises(ValueError, match=r"^certificates must be the path of a directory, as a str"):
        ClientConfig(certificates=value)  # type: ignore[arg-type]


def test_metrics_are_a_registry_or_none() -> None:
    assert ClientConfig(metrics=CollectorRegistry()).metrics is not None
    with pytest.raises(ValueError, match="metrics"):
        ClientConfig(metrics="all")  # type: ignore[arg-type]


def test_tracing_is_a_provider_of_spans_or_none() -> None:
    assert ClientConfig(tracing=NoOpTracerProvider()).tracing is not None
    with pytest.raises(ValueError, match="tracing must be a TracerProvider"):
        ClientConfig(tracing="all")  # type: ignore[arg-type]


def test_the_bookie_of_this_process_is_one_that_can_be_connected_to_or_none() -> None:
    with pytest.raises(ValueError, match="own_bookie must be the bookie that runs in this process"):
        ClientConfig(own_bookie="b1")  # type: ignore[arg-type]


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
