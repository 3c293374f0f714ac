"""Segments that overlap: which of them a reader is shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from qjm_compat.acceptor.programs.edit_log_manifest import without_overlaps
from qjm_compat.errors import RuleViolated
from qjm_compat.requests import RemoteEditLog


def final(start: int, end: int) -> RemoteEditLog:
    return RemoteEditLog(start, end)


def open_one(start: int, end: int) -> RemoteEditLog:
    return RemoteEditLog(start, end, in_progress=True)


@pytest.mark.parametrize(
    ("logs", "shown"),
    [
        ([final(1, 3), final(4, 6), open_one(7, 9)], [final(1, 3), final(4, 6), open_one(7, 9)]),
        ([final(1, 6), open_one(4, 9)], [final(1, 6)]),
        ([final(1, 6), open_one(1, 9)], [final(1, 6)]),
        ([open_one(1, 9), final(4, 6)], [final(4, 6)]),
        ([open_one(1, 9), open_one(4, 6)], [open_one(4, 6)]),
        ([open_one(1, 9), final(2, 3), final(4, 6), open_one(5, 8)], [final(2, 3), final(4, 6)]),
    ],
)
def test_what_is_finalized_beats_what_is_in_progress_and_a_later_start_an_earlier_one(
    logs: Sequence[RemoteEditLog], shown: list[RemoteEditLog]
) -> None:
    for order in permutations(logs):
        assert list(without_overlaps(order)) == shown


@pytest.mark.parametrize("inside", [final(5, 6), final(10, 12), final(2, 10)])
def test_a_finalized_segment_is_never_left_out_in_favour_of_another(inside: RemoteEditLog) -> None:
    for logs in ([final(1, 10), inside], [inside, final(1, 10), open_one(4, 20)]):
        with pytest.raises(RuleViolated, match="overlaps"):
            without_overlaps(logs)
