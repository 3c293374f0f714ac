"""What comes from the network: frames, handshakes, messages. Checksums are made to fit, or all would end there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crc32c import crc32c

from bookie.wire import BadMessage, codec
from bookie.wire.data.framing import BadFrame, FrameKind, FrameReader, framed
from bookie.wire.data.handshake import (
    BadHandshake,
    ClientHello,
    ServerHello,
    decode_hello,
    decode_server_hello,
)
from bookie.wire.messages import (
    Ack,
    AppendReply,
    AppendRequest,
    Credential,
    EntryRange,
    Frame,
    HeldNote,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    NotesReply,
    NotesRequest,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
)
from tests.bookie.entries import frame_of

from .target import Target

LAC = LacStatement(5, 100, b"four")
CREDENTIAL = Credential(bytes(32), bytes(64))
FRAME = frame_of(7, [1, 2], lac=0)

MESSAGES: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], Any]] = [
    (
        "append_request",
        codec.decode_append_request,
        codec.encode_append_request,
        AppendRequest("i1", 3, (FRAME, Frame(8, last_add_confirmed=LAC, credential=CREDENTIAL))),
    ),
    (
        "append_reply",
        codec.decode_append_reply,
        codec.encode_append_reply,
        AppendReply((Ack(3, Status.OK), Ack(4, Status.FENCED, "why"))),
    ),
    (
        "read_request",
        codec.decode_read_request,
        codec.encode_read_request,
        ReadRequest("i1", 7, 0, 9, 4096, fence=True, credential=CREDENTIAL),
    ),
    (
        "scan_request",
        codec.decode_scan_request,
        codec.encode_scan_request,
        ScanRequest("i1", 7, 0, 9, 4096, 8192, CREDENTIAL),
    ),
    ("taken", codec.decode_taken, codec.encode_taken, 4096),
    (
        "read_reply",
        codec.decode_read_reply,
        codec.encode_read_reply,
        ReadReply(Status.OK, FRAME.columns, 2, (EntryRange(3, 4),), LAC),
    ),
    (
        "lac_request",
        codec.decode_lac_request,
        codec.encode_lac_request,
        LacRequest("i1", 7, wait_beyond=3, wait_ms=1000),
    ),
    (
        "lac_reply",
        codec.decode_lac_reply,
        codec.encode_lac_reply,
        LacReply(Status.OK, LAC, writer_address="10.0.0.7:4711"),
    ),
    (
        "holdings_request",
        codec.decode_holdings_request,
        codec.encode_holdings_request,
        HoldingsRequest("i1", 7, 0, 9, 4096),
    ),
    (
        "holdings_reply",
        codec.decode_holdings_reply,
        codec.encode_holdings_reply,
        HoldingsReply(Status.OK, (Holding(0, 9, 10, 100),), 9),
    ),
    ("notes_request", codec.decode_notes_request, codec.encode_notes_request, NotesRequest("i1", 7, 5)),
    (
        "notes_reply",
        codec.decode_notes_reply,
        codec.encode_notes_reply,
        NotesReply(Status.OK, (HeldNote(7, 5, bytes(16), b"note"),), False),
    ),
    ("info_request", codec.decode_info_request, codec.encode_info_request, None),
    (
        "info_reply",
        codec.decode_info_reply,
        codec.encode_info_reply,
        InfoReply("b1", "i1", "c1", "0.4", 10, 5, 1, 2, 3, False, 4, 5, (0.001, 0.5), (1, 2, 3)),
    ),
    (
        "maintain_request",
        codec.decode_maintain_request,
        codec.encode_maintain_request,
        MaintainRequest(MaintenanceAction.REPAIR, "b2"),
    ),
    (
        "maintain_reply",
        codec.decode_maintain_reply,
        codec.encode_maintain_reply,
        MaintainReply(Status.OK, report='{"a": 1}'),
    ),
]

_SEED = crc32c(b"bookledger 2")


def targets() -> list[Target]:
    return [
        Target("frames", frames, (BadFrame,), lambda: [_some_frames()]),
        Target("hello", decode_hello, (BadHandshake,), lambda: [ClientHello().encode()]),
        Target(
            "server_hello",
            decode_server_hello,
            (BadHandshake,),
            lambda: [ServerHello(1, "i1", bytes(16)).encode()],
        ),
        *(
            Target(name, _message(decode, encode), (BadMessage,), lambda e=encode, v=value: [_unsummed(e(v))])  # type: ignore[misc]
            for name, decode, encode, value in MESSAGES
        ),
    ]


def frames(data: bytes) -> None:
    """Received in pieces as the first byte says; what comes out is the same however it was cut."""
    if not data:
        return
    whole, cut = _received(data[1:], len(data)), _received(data[1:], 1 + data[0] % 64)
    assert whole == cut


def _received(data: bytes, piece: int) -> list[tuple[FrameKind, int, bytes]]:
    reader, found = FrameReader(), list[Any]()
    reader.handshake_done()
    view = memoryview(data)
    while view:
        room = reader.buffer()
        count = min(len(room), len(view), piece)
        room[:count] = view[:count]
        view = view[count:]
        found += reader.received(count)
        while reader.has_more:
            found += reader.more()
        if reader.wanted:
            reader.go_on()
    return [(kind, call, bytes(body)) for kind, call, body in found]


def _some_frames() -> bytes:
    parts = [*framed(FrameKind.PING, 0, []), *framed(FrameKind.READ, 7, [b"body"])]
    return b"\x05" + b"".join(map(bytes, parts))


def _message(decode: Callable[[Any], Any], encode: Callable[[Any], Any]) -> Callable[[bytes], None]:
    """What is decoded is encoded to something that is decoded to the same."""

    def parse(data: bytes) -> None:
        found = decode(crc32c(data, _SEED).to_bytes(4, "little") + data)
        assert decode(b"".join(map(bytes, encode(found)))) == found

    return parse


def _unsummed(parts: Sequence[Any]) -> bytes:
    return b"".join(map(bytes, parts))[4:]
