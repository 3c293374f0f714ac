"""What comes from the network: frames, handshakes, messages. Checksums are made to fit, or all would end there."""

from __future__ import annotations

from collections.abc import Callable
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
    BytesTaken,
    Credential,
    EntryRange,
    Frame,
    HeldNote,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    InfoRequest,
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
from tests.bookie.messages import whole

from .target import Target

LAC = LacStatement(5, 100, b"four")
CREDENTIAL = Credential(bytes(32), bytes(64))
FRAME = frame_of(7, [1, 2], lac=0)

MESSAGES: dict[str, Any] = {
    "append_request": AppendRequest(
        "i1", 3, (FRAME, Frame(8, last_add_confirmed=LAC, credential=CREDENTIAL))
    ),
    "append_reply": AppendReply((Ack(3, Status.OK), Ack(4, Status.FENCED, "why"))),
    "read_request": ReadRequest("i1", 7, 0, 9, 4096, fence=True, credential=CREDENTIAL),
    "scan_request": ScanRequest("i1", 7, 0, 9, 4096, 8192, CREDENTIAL),
    "taken": BytesTaken(4096),
    "read_reply": ReadReply(Status.OK, FRAME.columns, 2, (EntryRange(3, 4),), LAC),
    "lac_request": LacRequest("i1", 7, wait_beyond=3, wait_ms=1000),
    "lac_reply": LacReply(Status.OK, LAC, writer_address="10.0.0.7:4711"),
    "holdings_request": HoldingsRequest("i1", 7, 0, 9, 4096),
    "holdings_reply": HoldingsReply(Status.OK, (Holding(0, 9, 10, 100),), 9),
    "notes_request": NotesRequest("i1", 7, 5),
    "notes_reply": NotesReply(Status.OK, (HeldNote(7, 5, bytes(16), b"note"),), False),
    "info_request": InfoRequest(),
    "info_reply": InfoReply("b1", "i1", "c1", "0.4", 10, 5, 1, 2, 3, False, 4, 5, (0.001, 0.5), (1, 2, 3)),
    "maintain_request": MaintainRequest(MaintenanceAction.REPAIR, "b2"),
    "maintain_reply": MaintainReply(Status.OK, report='{"a": 1}'),
}
"""One of each kind, by the name of its corpus."""

_SEED = crc32c(b"bookledger message 1")


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
        *(Target(name, _message(name), (BadMessage,), lambda n=name: [_unsummed(n)]) for name in MESSAGES),  # type: ignore[misc]
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


def _message(name: str) -> Callable[[bytes], None]:
    """What is decoded is encoded to something that is decoded to the same."""
    kind = type(MESSAGES[name])

    def parse(data: bytes) -> None:
        found = codec.decode(kind, crc32c(data, _SEED).to_bytes(4, "little") + data)
        assert codec.decode(kind, whole(codec.encode(found))) == found

    return parse


def _unsummed(name: str) -> bytes:
    """Without the checksum."""
    return whole(codec.encode(MESSAGES[name]))[4:]
