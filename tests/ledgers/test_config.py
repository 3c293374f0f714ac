"""How the settings of a client relate."""

from __future__ import annotations

import re

import pytest

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import ClientConfig
from ledgers.config import MIB, ORDERED


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
