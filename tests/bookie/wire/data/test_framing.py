"""Frames become bytes and the same frames again, however the bytes are cut; what is no frame is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire.data.framing import (
    GREETING_BYTES_MAX,
    HEADER,
    RECEIVE_BYTES,
    RECEIVE_BYTES_MIN,
    BadFrame,
    FrameKind,
    FrameReader,
    Received,
    framed,
)
from bookie.wire.grpc_methods import MESSAGE_BYTES_MAX

FRAMES = st.lists(
    st.builds(
        Received,
        st.sampled_from(FrameKind),
        st.integers(0, 2**32 - 1),
        st.one_of(
            st.binary(max_size=300),
            st.builds(bytes, st.integers(RECEIVE_BYTES_MIN - 40, RECEIVE_BYTES_MIN + 40)),
            st.builds(bytes, st.integers(RECEIVE_BYTES - 40, RECEIVE_BYTES + 40)),
            st.builds(bytes, st.integers(100_000, 300_000)),
        ),
    ),
    max_size=6,
)


def as_bytes(frames: list[Received]) -> bytes:
    return b"".join(part for kind, call, body in frames for part in framed(kind, call, [bytes(body)]))


def received(reader: FrameReader, data: bytes, cuts: list[int]) -> list[Received]:
    """All frames of the data, which comes in pieces that end at these places."""
    frames: list[Received] = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        view = memoryview(data)[begin:end]
        while view:
            room = reader.buffer()
            assert len(room) > 0
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            frames += reader.received(count)
            while reader.has_more:
                frames += reader.more()
            if reader.wanted:
                reader.go_on()
    return frames


def greeted_reader() -> FrameReader:
    reader = FrameReader()
    reader.handshake_done()
    return reader


@settings(max_examples=150, deadline=None)
@given(frames=FRAMES, data=st.data())
def test_frames_come_back_as_they_were_sent_however_the_bytes_are_cut(
    frames: list[Received], data: st.DataObject
) -> None:
    sent = as_bytes(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12)))
    assert received(greeted_reader(), sent, cuts) == frames


def test_byte_by_byte_is_as_good_as_all_at_once() -> None:
    frames = [
        Received(FrameKind.APPEND, 0, b"abc"),
        Received(FrameKind.PING, 0, b""),
        Received(FrameKind.READ, 7, b"x" * 50),
    ]
    sent = as_bytes(frames)
    assert received(greeted_reader(), sent, list(range(1, len(sent)))) == frames


def test_a_frame_has_the_bytes_that_it_had_in_earlier_versions() -> None:
    """Golden bytes: whoever changes them makes another version of the protocol."""
    assert (
        b"".join(framed(FrameKind.READ, 0x01020304, [b"ab", b"c"])).hex() == "030000000403020106000000616263"
    )
    assert [kind.value for kind in FrameKind] == list(range(1, 16))
    assert " ".join(kind.name for kind in FrameKind) == (
        "HELLO SERVER_HELLO GOODBYE APPEND ACKS READ LAST_ADD_CONFIRMED HOLDINGS INFO CANCEL PING PONG REFUSED "
        "SCAN TAKEN"
    )


@pytest.mark.parametrize("size", [MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1, 2**32 - 1])
def test_a_frame_may_be_as_large_as_a_message_and_no_larger(size: int) -> None:
    reader = greeted_reader()
    header = HEADER.pack(size, 0, FrameKind.APPEND)
    if size <= MESSAGE_BYTES_MAX:
        assert received(reader, header, []) == []
        assert len(reader.buffer()) == size
    else:
        with pytest.raises(BadFrame, match=f"a frame of {size} bytes; the limit is {MESSAGE_BYTES_MAX}"):
            received(reader, header, [])


def test_a_stranger_makes_nobody_keep_more_than_a_greeting() -> None:
    assert received(FrameReader(), as_bytes([Received(FrameKind.HELLO, 0, bytes(GREETING_BYTES_MAX))]), [])
    with pytest.raises(BadFrame, match="the limit is"):
        received(FrameReader(), HEADER.pack(GREETING_BYTES_MAX + 1, 0, FrameKind.HELLO), [])


@pytest.mark.parametrize("kind", [0, 16, 2**32 - 1])
def test_a_frame_of_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(BadFrame, match=f"unknown kind {kind}"):
        received(greeted_reader(), struct.pack("<III", 0, 0, kind), [])


def test_a_large_body_is_received_where_it_stays() -> None:
    """What is left of it is not copied once more: the buffer that is received into is the body's own."""
    reader = greeted_reader()
    body = bytes(range(256)) * 2000
    sent = as_bytes([Received(FrameKind.APPEND, 0, body)])
    assert received(reader, sent[:RECEIVE_BYTES], []) == []
    room = reader.buffer()
    assert len(room) == len(sent) - RECEIVE_BYTES
    room[:] = sent[RECEIVE_BYTES:]
    (frame,) = reader.received(len(room))
    assert frame.body == body and frame.body is room.obj


def test_a_connection_that_says_little_takes_little_and_one_that_says_much_receives_much_at_a_time() -> None:
    reader = greeted_reader()
    for _ in range(100):
        assert len(received(reader, as_bytes([Received(FrameKind.PING, 0, b"")]), [])) == 1
        assert len(reader.buffer()) == RECEIVE_BYTES_MIN
    many = [Received(FrameKind.ACKS, 0, bytes(100))] * 100
    assert received(reader, as_bytes(many), []) == many
    assert len(reader.buffer()) == RECEIVE_BYTES
