"""Encodes and decodes what goes over gRPC: info, maintenance, notes."""

from __future__ import annotations

import math
from typing import cast

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, sealed
from ..messages import (
    REPORT_BYTES_MAX,
    HeldNote,
    InfoReply,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    NotesReply,
    NotesRequest,
)
from .parts import STATUS_TO_PB, Body, decoder, encoder, parse, status_from

BUCKETS_MAX = 64
"""Buckets of an append histogram at most."""

_ACTION_TO_PB: dict[MaintenanceAction, pb.MaintenanceAction] = {
    action: cast("pb.MaintenanceAction", pb.MaintenanceAction.Value(action.name))
    for action in MaintenanceAction
}

_ACTION_FROM_PB = {int(number): action for action, number in _ACTION_TO_PB.items()}


def encode_info_request(_: None) -> Sealed:
    return sealed(pb.InfoRequest())


def decode_info_request(data: Body) -> None:
    parse(pb.InfoRequest, data)


encode_info_reply = encoder(pb.InfoReply, InfoReply)
_info_reply = decoder(pb.InfoReply, InfoReply)


def decode_info_reply(data: Body) -> InfoReply:
    reply = _info_reply(data)
    bounds, counts = reply.append_seconds_bounds, reply.append_counts
    if len(counts) > BUCKETS_MAX or len(counts) != len(bounds) + bool(counts):
        raise BadMessage(f"{len(counts)} counts of appends for {len(bounds)} bounds")
    if list(bounds) != sorted(set(bounds)) or not all(map(math.isfinite, bounds)):
        raise BadMessage("bounds of seconds that do not rise")
    return reply


def encode_maintain_request(request: MaintainRequest) -> Sealed:
    return sealed(pb.MaintainRequest(action=_ACTION_TO_PB[request.action], adopt=request.adopt))


def decode_maintain_request(data: Body) -> MaintainRequest:
    message = parse(pb.MaintainRequest, data)
    action = _ACTION_FROM_PB.get(message.action)
    if action is None:
        raise BadMessage(f"unknown act of maintenance {message.action}")
    return MaintainRequest(action, message.adopt)


encode_maintain_reply = encoder(pb.MaintainReply, MaintainReply)
_maintain_reply = decoder(pb.MaintainReply, MaintainReply)


def decode_maintain_reply(data: Body) -> MaintainReply:
    reply = _maintain_reply(data)
    if (size := len(reply.report.encode())) > REPORT_BYTES_MAX:
        raise BadMessage(f"a report of {size} bytes; the limit is {REPORT_BYTES_MAX}")
    return reply


encode_notes_request = encoder(pb.NotesRequest, NotesRequest)
_notes_request = decoder(pb.NotesRequest, NotesRequest)


def decode_notes_request(data: Body) -> NotesRequest:
    request = _notes_request(data)
    if request.first_ledger < 0 or request.first_entry < 0:
        raise BadMessage(f"no ledger {request.first_ledger} has an entry {request.first_entry}")
    return request


def encode_notes_reply(reply: NotesReply) -> Sealed:
    message = pb.NotesReply(status=STATUS_TO_PB[reply.status], detail=reply.detail, is_last=reply.is_last)
    for ledger_id, first_entry, identity, note in reply.notes:
        message.notes.add(ledger_id=ledger_id, first_entry=first_entry, identity=identity, note=note)
    return sealed(message)


def decode_notes_reply(data: Body) -> NotesReply:
    message = parse(pb.NotesReply, data)
    notes = tuple(HeldNote(one.ledger_id, one.first_entry, one.identity, one.note) for one in message.notes)
    if not (notes or message.is_last or message.detail) or any(min(one[:2]) < 0 for one in notes):
        raise BadMessage("a page of notes that is empty, or of no ledger")
    return NotesReply(status_from(message.status), notes, message.is_last, message.detail)
