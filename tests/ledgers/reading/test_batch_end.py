"""Where a batch of appends ends: a frame's bounds in bytes and in entries."""

from __future__ import annotations

import pytest

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX
from ledgers.protocol.pending import batch_end


def test_small_entries_go_together() -> None:
    assert batch_end([b"a"] * 10, 0) == 10
    assert batch_end([b"a"] * 10, 9) == 10


def test_a_batch_fills_a_frame_and_no_more() -> None:
    half = bytes(FRAME_BYTES_MAX // 2)
    assert batch_end([half, half, b"", b"a"], 0) == 3
    assert batch_end([half, half, b"", b"a"], 3) == 4


@pytest.mark.parametrize("others", [0, 1, 3])
def test_one_larger_entry_is_a_batch_alone(others: int) -> None:
    large = bytes(FRAME_BYTES_MAX + 1)
    payloads = [large] + [b"a"] * others
    assert batch_end(payloads, 0) == 1
    assert batch_end([b"a", *payloads], 0) == 1


def test_a_batch_has_no_more_entries_than_a_frame() -> None:
    payloads = [b""] * (FRAME_ENTRIES_MAX + 5)
    assert batch_end(payloads, 0) == FRAME_ENTRIES_MAX
    assert batch_end(payloads, FRAME_ENTRIES_MAX) == FRAME_ENTRIES_MAX + 5


def test_batches_cover_everything_once() -> None:
    sizes = (0, 1, FRAME_BYTES_MAX, 5, FRAME_BYTES_MAX - 4, FRAME_BYTES_MAX + 9, 0, 2)
    payloads = [bytes(size) for size in sizes]
    start, ends = 0, []
    while start < len(payloads):
        stop = batch_end(payloads, start)
        assert stop > start
        assert stop == start + 1 or sum(sizes[start:stop]) <= FRAME_BYTES_MAX
        ends.append(stop)
        start = stop
    assert ends[-1] == len(payloads)
