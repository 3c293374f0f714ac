"""Frames of Hadoop's IPC come out as they were sent, however they were cut on their way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.hadoop.errors import BadRpcFrame
from qjm_compat.hadoop.wire.rpc_framing import RpcFrameReader, frame_of, parts_of

PARTS = [b"", b"one", bytes(127), bytes(128), bytes(300)]


@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=3), max_size=4), st.data())
def test_whole_frames_come_out_wherever_the_bytes_were_cut(
    sent: list[list[bytes]], data: st.DataObject
) -> None:
    stream = b"".join(map(frame_of, sent))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    reader, came = RpcFrameReader(), list[list[bytes]]()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        came += map(parts_of, reader.feed(stream[start:end]))
    assert (came, reader.buffered_bytes) == (sent, 0)


def test_what_nobody_asked_for_yet_is_kept() -> None:
    reader = RpcFrameReader()
    first, second = frame_of([b"first"]), frame_of([b"second"])
    reader.feed(first + second[:3])
    for frame in reader.feed(second[3:]):
        assert parts_of(frame) == [b"first"]
        break
    assert [parts_of(frame) for frame in reader.feed(b"")] == [[b"second"]]


def test_a_frame_over_the_limit_is_refused_before_it_is_buffered_and_a_consumer_may_raise_the_limit() -> None:
    small, large = frame_of([b"small"]), frame_of([bytes(100)])
    reader = RpcFrameReader(len(small))
    with pytest.raises(BadRpcFrame, match="was announced"):
        list(reader.feed(small + large[:4]))
    reader = RpcFrameReader(len(small))
    for _ in reader.feed(small + large[:50]):
        reader.size_max = len(large)
    assert [parts_of(frame) for frame in reader.feed(large[50:])] == [[bytes(100)]]
