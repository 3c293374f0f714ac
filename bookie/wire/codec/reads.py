"""Encodes and decodes reads: pages, scans, last-add-confirmed, and a ledger's extents."""

from __future__ import annotations

from metadata.records.notes.fragment_note import Headline

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, sealed
from ..messages import (
    HOLDINGS_MAX,
    BytesTaken,
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
    Codec,
    columns_from,
    lac_from,
    lac_to,
    parse,
    parse_with_columns,
    plain,
    shape_of,
    status_from,
)


def _encode_taken(taken: BytesTaken) -> Sealed:
    return sealed(pb.Taken(bytes=taken.bytes))


def _decode_taken(data: Body) -> BytesTaken:
    return BytesTaken(parse(pb.Taken, data).bytes)


def _encode_read_reply(reply: ReadReply) -> Sealed:
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


def _decode_read_reply(data: Body) -> ReadReply:
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


def _encode_lac_reply(reply: LacReply) -> Sealed:
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


def _decode_lac_reply(data: Body) -> LacReply:
    message = parse(pb.LastAddConfirmedReply, data)
    lac = lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
    latest = None
    if message.HasField("latest"):
        latest = Headline(message.latest.first_entry, message.latest.number, message.latest.is_closed)
    rest = message.vouched_since, latest, message.writer_address
    return LacReply(status_from(message.status), lac, message.detail, *rest)


def _encode_holdings_reply(reply: HoldingsReply) -> Sealed:
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


def _decode_holdings_reply(data: Body) -> HoldingsReply:
    m = parse(pb.HoldingsReply, data)
    columns = m.first_entries, m.last_entries, m.entries, m.payload_bytes
    if len({len(column) for column in columns}) != 1 or len(m.entries) > HOLDINGS_MAX:
        raise BadMessage(f"columns of holdings have invalid lengths: {[len(column) for column in columns]}")
    holdings = tuple(map(Holding, *columns))
    if any(not 0 <= first <= last for first, last, _, _ in holdings):
        raise BadMessage("a holding with an invalid range of entries")
    return HoldingsReply(status_from(m.status), holdings, m.covered_through, m.detail)


READS = {
    ReadRequest: plain(pb.ReadRequest, ReadRequest),
    ReadReply: Codec(_encode_read_reply, _decode_read_reply),
    ScanRequest: plain(pb.ScanRequest, ScanRequest),
    BytesTaken: Codec(_encode_taken, _decode_taken),
    LacRequest: plain(pb.LastAddConfirmedRequest, LacRequest),
    LacReply: Codec(_encode_lac_reply, _decode_lac_reply),
    HoldingsRequest: plain(pb.HoldingsRequest, HoldingsRequest),
    HoldingsReply: Codec(_encode_holdings_reply, _decode_holdings_reply),
}
