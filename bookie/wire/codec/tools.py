"""Encodes and decodes the messages sent over gRPC: info, maintenance, notes."""

from __future__ import annotations

import math

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, sealed
from ..messages import (
    REPORT_BYTES_MAX,
    HeldNote,
    InfoReply,
    InfoRequest,
    MaintainReply,
    MaintainRequest,
    NotesReply,
    NotesRequest,
)
from .parts import STATUS_TO_PB, Body, Codec, parse, plain, status_from

BUCKETS_MAX = 64
"""Maximum number of buckets in an append histogram."""


def _encode_info_request(_: InfoRequest) -> Sealed:
    return sealed(pb.InfoRequest())


def _decode_info_request(data: Body) -> InfoRequest:
    parse(pb.InfoRequest, data)
    return InfoRequest()


def _check_info(reply: InfoReply) -> None:
    bounds, counts = reply.append_seconds_bounds, reply.append_counts
    if len(counts) > BUCKETS_MAX or len(counts) != len(bounds) + bool(counts):
        raise BadMessage(f"{len(counts)} append counts for {len(bounds)} bounds")
    if list(bounds) != sorted(set(bounds)) or not all(map(math.isfinite, bounds)):
        raise BadMessage("the bounds in seconds are not finite or not in ascending order")


def _check_report(reply: MaintainReply) -> None:
    if (size := len(reply.report.encode())) > REPORT_BYTES_MAX:
        raise BadMessage(f"a report of {size} bytes; the limit is {REPORT_BYTES_MAX}")


def _check_notes_request(request: NotesRequest) -> None:
    if request.first_ledger < 0 or request.first_entry < 0:
        raise BadMessage(f"ledger {request.first_ledger} and entry {request.first_entry} are not valid ids")


def _encode_notes_reply(reply: NotesReply) -> Sealed:
    message = pb.NotesReply(status=STATUS_TO_PB[reply.status], detail=reply.detail, is_last=reply.is_last)
    for ledger_id, first_entry, identity, note in reply.notes:
        message.notes.add(ledger_id=ledger_id, first_entry=first_entry, identity=identity, note=note)
    return sealed(message)


def _decode_notes_reply(data: Body) -> NotesReply:
    message = parse(pb.NotesReply, data)
    notes = tuple(HeldNote(one.ledger_id, one.first_entry, one.identity, one.note) for one in message.notes)
    if not (notes or message.is_last or message.detail) or any(min(one[:2]) < 0 for one in notes):
        raise BadMessage("a page of notes is empty, or contains an invalid id")
    return NotesReply(status_from(message.status), notes, message.is_last, message.detail)


TOOLS = {
    InfoRequest: Codec(_encode_info_request, _decode_info_request),
    InfoReply: plain(pb.InfoReply, InfoReply, _check_info),
    MaintainRequest: plain(pb.MaintainRequest, MaintainRequest),
    MaintainReply: plain(pb.MaintainReply, MaintainReply, _check_report),
    NotesRequest: plain(pb.NotesRequest, NotesRequest, _check_notes_request),
    NotesReply: Codec(_encode_notes_reply, _decode_notes_reply),
}
