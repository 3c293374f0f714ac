"""Offsets of streams of logs, and how a batch is shared among logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.logs.stream import Delivered, LogsOffset, shares
from spark.stream.offsets import BadOffset

DELIVERED = st.builds(Delivered, st.just("0a"), st.integers(0, 2**62), st.integers(0, 2**62))
OFFSETS = st.builds(LogsOffset, st.just("set sales"), st.dictionaries(st.text(min_size=1), DELIVERED))


@given(OFFSETS)
def test_an_offset_is_read_as_it_was_written(offset: LogsOffset) -> None:
    assert LogsOffset.from_json(json.loads(json.dumps(offset.to_json())), "set sales") == offset


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"logs": {}},
        {"chosen": "set sales"},
        {"chosen": "set sales", "logs": []},
        {"chosen": "set sales", "logs": {"sales.0": ["0a", 1]}},
        {"chosen": "set sales", "logs": {"sales.0": ["0a", "x", 1]}},
        {"below": 7},
    ],
)
def test_what_is_no_offset_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(BadOffset, match="is not an offset of a stream of logs: if a stream"):
        LogsOffset.from_json(value, "set sales")


def test_the_offset_of_a_stream_of_other_logs_is_refused() -> None:
    value = LogsOffset("log orders").to_json()
    with pytest.raises(
        BadOffset, match="the checkpoint belongs to a stream of log orders, but this is a stream of set sales"
    ):
        LogsOffset.from_json(value, "set sales")


@given(st.lists(st.integers(0, 100), max_size=8), st.integers(1, 500))
def test_a_batch_is_shared_among_all_logs_and_none_waits_for_another(
    there: list[int], records_max: int
) -> None:
    given = shares(there, records_max)
    assert sum(given) == min(records_max, sum(there))
    assert all(0 <= one <= most for one, most in zip(given, there, strict=True))
    left_behind = [one for one, most in zip(given, there, strict=True) if one < most]
    if left_behind:
        assert max(given) - min(left_behind) <= 1, "whoever has more left got as much as anybody"
