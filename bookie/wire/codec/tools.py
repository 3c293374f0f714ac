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
from .parts import STATUS_TO_PB, Body, parse, status_from

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


def encode_info_reply(reply: InfoReply) -> Sealed:
    return sealed(
        pb.InfoReply(
            bookie_id=reply.bookie_id,
            incarnation=reply.incarnation,
            cluster_id=reply.cluster_id,
            version=reply.version,
            disk_bytes_total=reply.disk_bytes_total,
            disk_bytes_free=reply.disk_bytes_free,
            entries_added=reply.entries_added,
            bytes_added=reply.bytes_added,
            syncs=reply.syncs,
            read_only=reply.read_only,
            entries_read=reply.entries_read,
            bytes_read=reply.bytes_read,
            append_seconds_bounds=reply.append_seconds_bounds,
            append_counts=reply.append_counts,
        )
    )


def decode_info_reply(data: Body) -> InfoReply:
    m = parse(pb.InfoReply, data)
    bounds, counts = tuple(m.append_seconds_bounds), tuple(m.append_counts)
    if len(counts) > BUCKETS_MAX or len(counts) != len(bounds) + bool(counts):
        raise BadMessage(f"{len(counts)} counts of appends for {len(bounds)} bounds")
    if list(bounds) != sorted(set(bounds)) or not all(map(math.isfinite, bounds)):
        raise BadMessage("bounds of seconds that do not rise")
    return InfoReply(
        m.bookie_id,
        m.incarnation,
        m.cluster_id,
        m.version,
        m.disk_bytes_total,
        m.disk_bytes_free,
        m.entries_added,
        m.bytes_added,
        m.syncs,
        m.read_only,
        m.entries_read,
        m.bytes_read,
        bounds,
        counts,
    )


def encode_maintain_request(request: MaintainRequest) -> Sealed:
    return sealed(pb.MaintainRequest(action=_ACTION_TO_PB[request.action], adopt=request.adopt))


def decode_maintain_request(data: Body) -> MaintainRequest:
    message = parse(pb.MaintainRequest, data)
    action = _ACTION_FROM_PB.get(message.action)
    if action is None:
        raise BadMessage(f"unknown act of maintenance {message.action}")
    return MaintainRequest(action, message.adopt)


def encode_maintain_reply(reply: MaintainReply) -> Sealed:
    return sealed(
        pb.MaintainReply(status=STATUS_TO_PB[reply.status], detail=reply.detail, report=reply.report)
    )


def decode_maintain_reply(data: Body) -> MaintainReply:
    message = parse(pb.MaintainReply, data)
    if (size := len(message.report.encode())) > REPORT_BYTES_MAX:
        raise BadMessage(f"a report of {size} bytes; the limit is {REPORT_BYTES_MAX}")
    return MaintainReply(status_from(message.status), message.detail, message.report)


def encode_notes_request(request: NotesRequest) -> Sealed:
    return sealed(
        pb.NotesRequest(
            incarnation=request.incarnation,
            first_ledger=request.first_ledger,
            first_entry=request.first_entry,
        )
    )


def decode_notes_request(data: Body) -> NotesRequest:
    message = parse(pb.NotesRequest, data)
    if message.first_ledger < 0 or message.first_entry < 0:
        raise BadMessage(f"no ledger {message.first_ledger} has an entry {message.first_entry}")
    return NotesRequest(message.incarnation, message.first_ledger, message.first_entry)


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
