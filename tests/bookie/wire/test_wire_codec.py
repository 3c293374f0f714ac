"""Messages become bytes and the same messages again; bytes that are no message become BadMessage."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire import bookie_pb2 as pb
from bookie.wire import codec
from bookie.wire.attachments import BadMessage, Unsealed, sealed
from bookie.wire.columnar_entries import Columns
from bookie.wire.messages import (
    HOLDINGS_MAX,
    REPORT_BYTES_MAX,
    AppendReply,
    AppendRequest,
    BytesTaken,
    Frame,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    InfoRequest,
    LacReply,
    LacRequest,
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
from tests.bookie import messages
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.messages import whole

KINDS: dict[type, st.SearchStrategy[Any]] = {
    AppendRequest: messages.append_requests,
    AppendReply: messages.append_replies,
    ReadRequest: messages.read_requests,
    ScanRequest: messages.scan_requests,
    BytesTaken: st.builds(BytesTaken, st.integers(0, 2**64 - 1)),
    ReadReply: messages.read_replies,
    LacRequest: messages.lac_requests,
    LacReply: messages.lac_replies,
    HoldingsRequest: messages.holdings_requests,
    HoldingsReply: messages.holdings_replies,
    InfoRequest: st.just(InfoRequest()),
    NotesRequest: messages.notes_requests,
    NotesReply: messages.notes_replies,
    InfoReply: messages.info_replies,
    MaintainRequest: messages.maintain_requests,
    MaintainReply: messages.maintain_replies,
}
"""Values of each kind of message."""


SOME_FRAME = frame_of(7, [0, 1], lac=-1)

of_every_kind = pytest.mark.parametrize("kind", codec.MESSAGES)


@of_every_kind
@settings(max_examples=50)
@given(data=st.data())
def test_a_message_comes_back_as_it_was_sent(kind: type, data: st.DataObject) -> None:
    message = data.draw(KINDS[kind])
    assert codec.decode(kind, whole(codec.encode(message))) == message


@of_every_kind
@settings(max_examples=50)
@given(data=st.data())
def test_a_message_that_was_changed_on_the_way_never_arrives_as_another_one(
    kind: type, data: st.DataObject
) -> None:
    """Neither its entries nor its ledger, its flags, its answers: every bit is covered."""
    sent = bytearray(whole(codec.encode(data.draw(KINDS[kind]))))
    sent[data.draw(st.integers(0, len(sent) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadMessage, match="checksum mismatch"):
        codec.decode(kind, bytes(sent))


def a_page() -> pb.ReadReply:
    encoded = codec.encode(
        ReadReply(Status.OK, SOME_FRAME.columns, covered_through=1, last_add_confirmed=lac_of(0))
    )
    return pb.ReadReply.FromString(bytes(Unsealed(whole(encoded)).header))


def test_columns_that_do_not_fit_together_are_refused_even_with_their_checksum() -> None:
    frame = frame_of(7, [0, 1])
    broken = Columns(frame.columns.entry_ids, frame.columns.lengths, b"abc", frame.columns.payload)
    encoded = codec.encode(AppendRequest("i", 1, (frame, Frame(7, broken))))
    with pytest.raises(BadMessage, match="3 bytes of digests for 2 entries"):
        codec.decode(AppendRequest, whole(encoded))
    reply = codec.encode(ReadReply(Status.OK, broken, covered_through=1))
    with pytest.raises(BadMessage, match="3 bytes of digests for 2 entries"):
        codec.decode(ReadReply, whole(reply))


@pytest.mark.parametrize("field", ["entries", "digests_bytes", "payload_bytes"])
@pytest.mark.parametrize("claimed", [1_000, 2**32 - 1])
def test_columns_that_are_said_to_be_longer_than_the_message_are_refused(field: str, claimed: int) -> None:
    message = a_page()
    setattr(message.columns, field, claimed)
    with pytest.raises(BadMessage, match="shorter than its columns"):
        codec.decode(ReadReply, whole(sealed(message, [SOME_FRAME.columns])))


def test_bytes_left_over_behind_a_message_are_refused() -> None:
    assert codec.decode(ReadReply, whole(sealed(a_page(), [SOME_FRAME.columns])))
    with pytest.raises(BadMessage, match="extra bytes"):
        codec.decode(ReadReply, whole(sealed(a_page(), [SOME_FRAME.columns, SOME_FRAME.columns])))
    with pytest.raises(BadMessage, match="extra bytes"):
        codec.decode(LacReply, whole(sealed(pb.LastAddConfirmedReply(status="OK"), [SOME_FRAME.columns])))


def test_a_message_that_is_shorter_than_its_header_is_refused() -> None:
    with pytest.raises(BadMessage, match="shorter than its header"):
        codec.decode(LacReply, messages.with_checksum(struct.pack("<I", 5) + b"1234"))


@pytest.mark.parametrize("number", [0, 14, 2**31 - 1, -1])
def test_a_status_that_nobody_knows_is_refused(number: int) -> None:
    replies = {ReadReply: pb.ReadReply, LacReply: pb.LastAddConfirmedReply, MaintainReply: pb.MaintainReply}
    for of, kind in replies.items():
        reply = kind(status=number)
        with pytest.raises(BadMessage, match="unknown status"):
            codec.decode(of, whole(sealed(reply)))


@pytest.mark.parametrize(
    ("last_entry", "length_bytes", "digest_bytes"),
    [(-2, 0, 4), (0, -1, 4), (0, 0, codec.LAC_DIGEST_BYTES_MAX + 1), (0, 0, 70_000)],
)
def test_a_last_add_confirmed_that_cannot_be_is_refused(
    last_entry: int, length_bytes: int, digest_bytes: int
) -> None:
    message = a_page()
    lac = pb.LastAddConfirmed(last_entry=last_entry, length_bytes=length_bytes, digest=bytes(digest_bytes))
    message.last_add_confirmed.CopyFrom(lac)
    with pytest.raises(BadMessage, match=r"an invalid last-add-confirmed|with a digest of"):
        codec.decode(ReadReply, whole(sealed(message, [SOME_FRAME.columns])))


def test_nothing_confirmed_yet_is_not_the_same_as_no_word_about_it() -> None:
    for frame in (Frame(7, last_add_confirmed=lac_of(-1)), Frame(7)):
        request = AppendRequest("i", 1, (frame,))
        assert codec.decode(AppendRequest, whole(codec.encode(request))) == request


@pytest.mark.parametrize("number", [HOLDINGS_MAX, HOLDINGS_MAX + 1])
def test_holdings_at_their_limit_arrive_and_one_more_is_refused(number: int) -> None:
    message = whole(sealed(holdings_reply(number)))
    if number <= HOLDINGS_MAX:
        assert len(codec.decode(HoldingsReply, message).holdings) == number
    else:
        with pytest.raises(BadMessage, match="columns of holdings have invalid lengths"):
            codec.decode(HoldingsReply, message)


def test_holdings_in_columns_that_do_not_fit_together_are_refused() -> None:
    reply = holdings_reply(3)
    reply.entries.append(1)
    with pytest.raises(BadMessage, match="columns of"):
        codec.decode(HoldingsReply, whole(sealed(reply)))


def test_a_holding_that_ends_before_it_begins_is_refused() -> None:
    reply = holdings_reply(3)
    reply.last_entries[1] = 0
    with pytest.raises(BadMessage, match="a holding with an invalid range of entries"):
        codec.decode(HoldingsReply, whole(sealed(reply)))


def holdings_reply(runs: int) -> pb.HoldingsReply:
    return pb.HoldingsReply(
        status=pb.OK,
        first_entries=range(runs),
        last_entries=range(runs),
        entries=[1] * runs,
        payload_bytes=[100] * runs,
    )


# --- what an operator asks of a bookie's upkeep, and its report


def test_every_act_of_maintenance_has_a_number_of_its_own_that_never_changes() -> None:
    numbers = {action.name: pb.MaintenanceAction.Value(action.name) for action in MaintenanceAction}
    assert numbers == {"STATUS": 0, "COLLECT": 1, "SUSPEND": 2, "RESUME": 3, "SCRUB": 4, "REPAIR": 5}


def test_a_request_that_says_nothing_only_asks_how_things_are() -> None:
    request = codec.decode(MaintainRequest, whole(sealed(pb.MaintainRequest())))
    assert request == MaintainRequest(MaintenanceAction.STATUS)


@pytest.mark.parametrize("number", [6, 2**31 - 1, -1])
def test_an_act_of_maintenance_that_nobody_knows_is_refused(number: int) -> None:
    request = pb.MaintainRequest(action=number)  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match=f"unknown maintenance action {number}"):
        codec.decode(MaintainRequest, whole(sealed(request)))


def test_a_report_at_its_limit_arrives_and_one_byte_more_is_refused() -> None:
    """Counted in UTF-8: an é takes two."""
    full = MaintainReply(Status.OK, report="é" * (REPORT_BYTES_MAX // 2))
    assert codec.decode(MaintainReply, whole(codec.encode(full))) == full
    over = MaintainReply(Status.OK, report=full.report + "x")
    with pytest.raises(BadMessage, match=f"a report of {REPORT_BYTES_MAX + 1} bytes"):
        codec.decode(MaintainReply, whole(codec.encode(over)))
