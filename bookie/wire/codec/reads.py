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
    decoder,
    encoder,
    lac_from,
    lac_to,
    parse,
    parse_with_columns,
    shape_of,
    status_from,
)

encode_read_request = encoder(pb.ReadRequest, ReadRequest)
decode_read_request = decoder(pb.ReadRequest, ReadRequest)


encode_scan_request = encoder(pb.ScanRequest, ScanRequest)
decode_scan_request = decoder(pb.ScanRequest, ScanRequest)


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


encode_lac_request = encoder(pb.LastAddConfirmedRequest, LacRequest)
decode_lac_request = decoder(pb.LastAddConfirmedRequest, LacRequest)


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


encode_holdings_request = encoder(pb.HoldingsRequest, HoldingsRequest)
decode_holdings_request = decoder(pb.HoldingsRequest, HoldingsRequest)


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
