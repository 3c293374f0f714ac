"""Encodes and decodes reads: pages, scans, last-add-confirmed, and a ledger's extents."""

from __future__ import annotations

from metadata.records.notes.fragment_note import Headline

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, sealed
from ..messages import (
    HOLDINGS_MAX,
    EntryRange,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    ScanRequest,
)
from .parts import (
    STATUS_TO_PB,
    Body,
    columns_from,
    credential_from,
    credential_to,
    identity_from,
    lac_from,
    lac_to,
    parse,
    parse_with_columns,
    shape_of,
    status_from,
)


def encode_read_request(request: ReadRequest) -> Sealed:
    return sealed(
        pb.ReadRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            first_entry=request.first_entry,
            last_entry=request.last_entry,
            bytes_max=request.bytes_max,
            fence=request.fence,
            credential=credential_to(request.credential),
            trace=request.trace,
            whole_frames=request.whole_frames,
            identity=request.identity,
        )
    )


def decode_read_request(data: Body) -> ReadRequest:
    m = parse(pb.ReadRequest, data)
    page = m.first_entry, m.last_entry, m.bytes_max
    proven = m.fence, credential_from(m), m.trace
    return ReadRequest(m.incarnation, m.ledger_id, *page, *proven, m.whole_frames, identity_from(m))


def encode_scan_request(request: ScanRequest) -> Sealed:
    return sealed(
        pb.ScanRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            first_entry=request.first_entry,
            last_entry=request.last_entry,
            page_bytes=request.page_bytes,
            window_bytes=request.window_bytes,
            credential=credential_to(request.credential),
            identity=request.identity,
        )
    )


def decode_scan_request(data: Body) -> ScanRequest:
    m = parse(pb.ScanRequest, data)
    entries, sizes = (m.first_entry, m.last_entry), (m.page_bytes, m.window_bytes)
    return ScanRequest(m.incarnation, m.ledger_id, *entries, *sizes, credential_from(m), identity_from(m))


def encode_taken(taken_bytes: int) -> Sealed:
    return sealed(pb.Taken(bytes=taken_bytes))


def decode_taken(data: Body) -> int:
    return int(parse(pb.Taken, data).bytes)


def encode_read_reply(reply: ReadReply) -> Sealed:
    return sealed(
        pb.ReadReply(
            status=STATUS_TO_PB[reply.status],
            detail=reply.detail,
            columns=shape_of(reply.columns),
            covered_through=reply.covered_through,
            damaged=[
                pb.EntryRange(first_entry=r.first_entry, last_entry=r.last_entry) for r in reply.damaged
            ],
            last_add_confirmed=lac_to(reply.last_add_confirmed),
        ),
        (reply.columns,),
    )


def decode_read_reply(data: Body) -> ReadReply:
    message, body = parse_with_columns(pb.ReadReply, data)
    columns = columns_from(message.columns, body)
    body.end()
    return ReadReply(
        status=status_from(message.status),
        columns=columns,
        covered_through=message.covered_through,
        damaged=tuple(EntryRange(r.first_entry, r.last_entry) for r in message.damaged),
        last_add_confirmed=(
            lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
        ),
        detail=message.detail,
    )


def encode_lac_request(request: LacRequest) -> Sealed:
    return sealed(
        pb.LastAddConfirmedRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            fence=request.fence,
            wait_beyond=request.wait_beyond,
            wait_ms=request.wait_ms,
            credential=credential_to(request.credential),
            trace=request.trace,
            identity=request.identity,
        )
    )


def decode_lac_request(data: Body) -> LacRequest:
    m = parse(pb.LastAddConfirmedRequest, data)
    asked = m.incarnation, m.ledger_id, m.fence, m.wait_beyond, m.wait_ms
    return LacRequest(*asked, credential_from(m), m.trace, identity_from(m))


def encode_lac_reply(reply: LacReply) -> Sealed:
    return sealed(
        pb.LastAddConfirmedReply(
            status=STATUS_TO_PB[reply.status],
            detail=reply.detail,
            last_add_confirmed=lac_to(reply.last_add_confirmed),
            vouched_since=reply.vouched_since,
            latest=None if reply.latest is None else pb.LatestFragment(**reply.latest._asdict()),
            writer_address=reply.writer_address,
        )
    )


def decode_lac_reply(data: Body) -> LacReply:
    message = parse(pb.LastAddConfirmedReply, data)
    lac = lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
    # an older program does not vouch: while a cluster is upgraded its bookies are believed, as they were before
    vouched_since = 1 if message.metadata_revision else message.vouched_since
    latest = None
    if message.HasField("latest"):
        latest = Headline(message.latest.first_entry, message.latest.number, message.latest.is_closed)
    told = vouched_since, latest, message.writer_address
    return LacReply(status_from(message.status), lac, message.detail, *told)


def encode_holdings_request(request: HoldingsRequest) -> Sealed:
    return sealed(
        pb.HoldingsRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            first_entry=request.first_entry,
            last_entry=request.last_entry,
            step_bytes=request.step_bytes,
            identity=request.identity,
        )
    )


def decode_holdings_request(data: Body) -> HoldingsRequest:
    m = parse(pb.HoldingsRequest, data)
    asked = m.first_entry, m.last_entry, m.step_bytes
    return HoldingsRequest(m.incarnation, m.ledger_id, *asked, identity_from(m))


def encode_holdings_reply(reply: HoldingsReply) -> Sealed:
    return sealed(
        pb.HoldingsReply(
            status=STATUS_TO_PB[reply.status],
            detail=reply.detail,
            covered_through=reply.covered_through,
            first_entries=[held.first_entry for held in reply.holdings],
            last_entries=[held.last_entry for held in reply.holdings],
            entries=[held.entries for held in reply.holdings],
            payload_bytes=[held.payload_bytes for held in reply.holdings],
        )
    )


def decode_holdings_reply(data: Body) -> HoldingsReply:
    m = parse(pb.HoldingsReply, data)
    columns = m.first_entries, m.last_entries, m.entries, m.payload_bytes
    if len({len(column) for column in columns}) != 1 or len(m.entries) > HOLDINGS_MAX:
        raise BadMessage(f"holdings in columns of {[len(column) for column in columns]}")
    holdings = tuple(map(Holding, *columns))
    if any(not 0 <= first <= last for first, last, _, _ in holdings):
        raise BadMessage("holdings that end before they begin")
    return HoldingsReply(status_from(m.status), holdings, m.covered_through, m.detail)
