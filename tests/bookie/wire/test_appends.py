"""Appends in fields of fixed width come back as they were sent; what no peer sends is refused."""

from __future__ import annotations

import struct

import pytest

from bookie.wire import AppendReply, AppendRequest, BadMessage, Frame, codec
from bookie.wire.attachments import sealed_bytes
from bookie.wire.messages import Ack, LacStatement, Status
from metadata.records.notes.fragment_note import NOTE_BYTES_MAX
from tests.bookie.entries import frame_of
from tests.bookie.messages import whole

FRAME = frame_of(7, [0, 1], lac=-1)
REQUEST = AppendRequest("i", 1, (FRAME,))
FRAME_AT = struct.calcsize("<HHHQ") + len("i")
FLAGS_AT = FRAME_AT + struct.calcsize("<qqqIIIIBB")


def header_of(request: AppendRequest) -> bytearray:
    encoded = whole(codec.encode(request))
    (header_bytes,) = struct.unpack_from("<I", encoded, 4)
    return bytearray(encoded[8 : 8 + header_bytes])


def decoded(header: bytes | bytearray, *frames: Frame) -> AppendRequest:
    return codec.decode(
        AppendRequest, whole(sealed_bytes(bytes(header), [frame.columns for frame in frames]))
    )


@pytest.mark.parametrize("cut", range(1, 15))
def test_a_header_that_is_cut_short_or_has_more_is_refused(cut: int) -> None:
    header = bytes(header_of(REQUEST))
    assert decoded(header, FRAME) == REQUEST
    for wrong in (header[:-cut], header + bytes(cut)):
        with pytest.raises(BadMessage, match=r"fields|valid appends"):
            decoded(wrong, FRAME)
    acks = bytes(b"".join(codec.encode(AppendReply((Ack(1, Status.OK), Ack(2, Status.FENCED, "why")))))[8:])
    for wrong in (acks[:-cut], acks + bytes(min(cut, 13))):
        with pytest.raises(BadMessage, match=r"fields|valid acknowledgements|unknown status"):
            codec.decode(AppendReply, whole(sealed_bytes(wrong)))


def test_a_flag_that_nobody_knows_is_refused() -> None:
    header = header_of(REQUEST)
    header[FLAGS_AT] |= 1 << 5
    with pytest.raises(BadMessage, match="a frame with invalid flags"):
        decoded(header, FRAME)


def test_what_no_frame_has_is_refused() -> None:
    too_long = Frame(7, note=bytes(NOTE_BYTES_MAX + 1))
    for frame, why in (
        (Frame(-1), "-1 is not a ledger id"),
        (too_long, "a note of 262145 bytes"),
        (
            Frame(7, last_add_confirmed=LacStatement(-2, 0, b"four")),
            "an invalid last-add-confirmed: entry -2",
        ),
        (Frame(7, last_add_confirmed=LacStatement(0, 0, bytes(65))), "with a digest of 65 bytes"),
    ):
        with pytest.raises(BadMessage, match=why):
            codec.decode(AppendRequest, whole(codec.encode(AppendRequest("i", 1, (frame,)))))


@pytest.mark.parametrize(
    "frame",
    [
        Frame(7, last_add_confirmed=LacStatement(0, 1, b"")),
        Frame(7, deferred_sync=True),
        Frame(7, trace=b"t"),
    ],
)
def test_what_is_told_in_passing_is_nothing_but_a_note(frame: Frame) -> None:
    with pytest.raises(BadMessage, match="more than a note"):
        codec.decode(AppendRequest, whole(codec.encode(AppendRequest("i", 1, (), (frame,)))))


def test_what_is_told_in_passing_brings_no_entries() -> None:
    header = header_of(REQUEST)
    struct.pack_into("<HH", header, 2, 0, 1)  # the frame is told
    with pytest.raises(BadMessage, match="more than a note"):
        decoded(header, FRAME)


def test_columns_that_are_longer_than_the_message_are_refused() -> None:
    header = header_of(REQUEST)
    struct.pack_into("<I", header, FRAME_AT + 24, 2**32 - 1)
    with pytest.raises(BadMessage, match="shorter than its columns"):
        decoded(header, FRAME)
    with pytest.raises(BadMessage, match="extra bytes"):
        decoded(bytes(header_of(REQUEST)), FRAME, FRAME)


def test_more_frames_than_any_client_sends_are_refused() -> None:
    frames = (Frame(1),) * codec.FRAMES_MAX
    assert len(codec.decode(AppendRequest, whole(codec.encode(AppendRequest("i", 1, frames)))).frames) == 1024
    for request in (AppendRequest("i", 1, (*frames, Frame(1))), AppendRequest("i", 1, frames, (Frame(1),))):
        with pytest.raises(BadMessage, match="1025 frames in one message"):
            codec.decode(AppendRequest, whole(codec.encode(request)))


@pytest.mark.parametrize("number", [0, 14, 2**16 - 1])
def test_a_status_that_nobody_knows_is_refused(number: int) -> None:
    reply = struct.pack("<QHI", 1, number, 0)
    with pytest.raises(BadMessage, match="unknown status"):
        codec.decode(AppendReply, whole(sealed_bytes(reply)))


def test_names_that_are_no_text_are_refused() -> None:
    header = header_of(REQUEST)
    header[FRAME_AT - 1] = 0xFF
    with pytest.raises(BadMessage, match="the header does not contain valid appends"):
        decoded(header, FRAME)
    reply = struct.pack("<QHI", 1, 3, 1) + b"\xff"
    with pytest.raises(BadMessage, match="the header does not contain valid acknowledgements"):
        codec.decode(AppendReply, whole(sealed_bytes(reply)))
