"""Encodes and decodes appends: frames of entries, and their acknowledgements.

In protobuf here, for peers that speak a version of the data protocol before 4; later ones have `fixed_width`.
Whichever comes is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, Unsealed, sealed, unsealed_alone
from ..columns import NO_ENTRIES, Columns
from ..data.handshake import FIXED_WIDTH_SINCE
from ..messages import NO_CREDENTIAL, NO_TRACE, Ack, AppendReply, AppendRequest, Frame, LacStatement
from . import fixed_width
from .parts import (
    STATUS_TO_PB,
    Body,
    Codec,
    check_count,
    check_frame,
    columns_from,
    credential_from,
    identity_from,
    lac_from,
    parsed,
    status_from,
)

FRAMES_MAX = 1024
"""Frames of one message at most, kept by clients; a bookie's other clients wait while it decodes a message."""

APPEND_HEADER_BYTES_MAX = 512 * 1024
"""FRAMES_MAX frames need half of it. A frame may be a byte or two, and each costs memory once parsed."""


def _encode_request(request: AppendRequest) -> Sealed:
    message = pb.AppendRequest(incarnation=request.incarnation, first_sequence=request.first_sequence)
    add = message.frames.add
    for frame in request.frames:
        _frame_to(frame, add())
    for frame in request.told:
        _told_to(frame, message.told.add())
    return sealed(message, [frame.columns for frame in request.frames])


def _frame_to(frame: Frame, message: pb.Frame) -> None:
    """Sets field by field: nested constructors take three times as long, and this runs for each frame."""
    _told_to(frame, message)
    columns, shape = frame.columns, message.columns
    shape.entries = len(columns)
    shape.digests_bytes = len(columns.digests)
    shape.payload_bytes = len(columns.payload)
    if (statement := frame.last_add_confirmed) is not None:
        lac = message.last_add_confirmed
        lac.last_entry = statement.last_entry
        lac.length_bytes = statement.length_bytes
        lac.digest = statement.digest
    message.deferred_sync = frame.deferred_sync
    message.trace = frame.trace


def _told_to(frame: Frame, message: pb.Frame) -> None:
    """Whose it is, and the note."""
    message.ledger_id = frame.ledger_id
    if frame.credential != NO_CREDENTIAL:
        message.credential.verifier = frame.credential.verifier
        message.credential.proof = frame.credential.proof
    message.recovery = frame.recovery
    message.identity = frame.identity
    if frame.note:
        message.note = frame.note


def _decode_request(data: Body) -> AppendRequest:
    body = Unsealed(data)
    if len(body.header) > APPEND_HEADER_BYTES_MAX:
        raise BadMessage(f"a header of {len(body.header)} bytes; the limit is {APPEND_HEADER_BYTES_MAX}")
    if body.header[:1] == fixed_width.BEGINNING:
        return fixed_width.decode_request(body, FRAMES_MAX)
    message = parsed(pb.AppendRequest, body.header)
    check_count(len(message.frames), len(message.told), message.first_sequence, FRAMES_MAX)
    frames = tuple([_frame_from(frame, body) for frame in message.frames])
    told = tuple([_told_from(frame, NO_ENTRIES) for frame in message.told])
    body.end()
    return AppendRequest(message.incarnation, message.first_sequence, frames, told)


def _frame_from(message: pb.Frame, body: Unsealed) -> Frame:
    lac = lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
    return _told_from(message, columns_from(message.columns, body), lac, message.deferred_sync, message.trace)


def _told_from(
    message: pb.Frame,
    columns: Columns,
    lac: LacStatement | None = None,
    deferred: bool = False,
    trace: bytes = NO_TRACE,
) -> Frame:
    check_frame(message.ledger_id, message.note)
    whose = credential_from(message), deferred, trace, identity_from(message)
    return Frame(message.ledger_id, columns, lac, message.recovery, *whose, message.note)


def _encode_reply(reply: AppendReply) -> Sealed:
    message = pb.AppendReply()
    add = message.acks.add
    for sequence, status, detail in reply.acks:
        ack = add()
        ack.sequence, ack.status, ack.detail = sequence, STATUS_TO_PB[status], detail
    return sealed(message)


def _decode_reply(data: Body) -> AppendReply:
    header = unsealed_alone(data)
    if header[:1] == fixed_width.BEGINNING:
        return fixed_width.decode_reply(header)
    message = parsed(pb.AppendReply, header)
    return AppendReply(
        tuple([Ack(ack.sequence, status_from(ack.status), ack.detail) for ack in message.acks])
    )


class AppendEncoders(NamedTuple):
    """How appends and their acknowledgements are encoded."""

    request: Callable[[AppendRequest], Sealed]
    reply: Callable[[AppendReply], Sealed]


_IN_PROTOBUF = AppendEncoders(_encode_request, _encode_reply)
_IN_FIXED_WIDTH = AppendEncoders(fixed_width.encode_request, fixed_width.encode_reply)


def append_encoders(version: int) -> AppendEncoders:
    """For a peer with which this version of the data protocol was chosen."""
    return _IN_FIXED_WIDTH if version >= FIXED_WIDTH_SINCE else _IN_PROTOBUF


APPENDS = {
    AppendRequest: Codec(_encode_request, _decode_request),
    AppendReply: Codec(_encode_reply, _decode_reply),
}
