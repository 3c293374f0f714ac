"""A log's record: what its transitions allow, and what its encoding refuses.

L3: a segment begins where the one before it ended, and one that holds nothing leaves the chain.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.errors import BadRecord
from metadata.records import records_pb2 as pb
from metadata.records.ledger_record import DigestType, Shape
from metadata.records.logs import log_codec
from metadata.records.logs.log_record import OBSOLETE_MAX, PAGE_SEGMENTS, LogRecord, LogSettings
from metadata.records.logs.segment import Segment

LOG = LogRecord(bytes(16), "orders").taken_over("w1")
KEY = "logs/00"


def begun(log: LogRecord, ledger_id: int) -> LogRecord:
    start = log.end_position
    assert start is not None
    return log.begun(Segment(ledger_id, start, log.epoch, begun_us=log.time_us + 1))


def ended(log: LogRecord, records: int) -> LogRecord:
    last = log.last
    assert last is not None
    return log.ended(last.ended(last.first_position + records, last.begun_us + records, 10 * records))


def chain(*lengths: int) -> LogRecord:
    log = LOG
    for n, length in enumerate(lengths):
        log = ended(begun(log, n), length)
    return log


def test_L3_a_segment_begins_where_the_one_before_it_ends() -> None:
    log = begun(chain(3, 5), 7)
    assert [(s.first_position, s.end_position) for s in log.segments] == [(0, 3), (3, 8), (8, None)]
    assert log.end_position is None
    assert [log.segment_of(p) for p in (2, 3, 8, 99)] == [log.segments[n] for n in (0, 1, 2, 2)]
    with pytest.raises(ValueError, match="begins at 9 instead of 8"):
        replace(log, segments=(*log.segments[:2], replace(log.segments[2], first_position=9)))


def test_L3_a_segment_that_holds_nothing_leaves_the_chain_and_its_ledger_is_to_be_deleted() -> None:
    log = chain(3, 0, 0)
    assert [(s.first_position, s.end_position) for s in log.segments] == [(0, 3)]
    assert log.obsolete == (1, 2)
    assert begun(log, 9).segments[-1].first_position == 3
    assert log.without_obsolete([1]).obsolete == (2,)


def test_ending_a_segment_twice_changes_nothing_the_second_time() -> None:
    log = chain(3)
    assert log.ended(log.segments[0].ended(3, 0, 0)) == log


def test_each_take_over_has_an_epoch_of_its_own() -> None:
    assert [LOG.epoch, LOG.taken_over("w2").epoch, LOG.given_up().epoch] == [1, 2, 2]
    assert LOG.taken_over("w2").writer == "w2"


def test_times_never_go_back_along_a_log() -> None:
    log = begun(chain(5), 1)
    assert log.segments[1].begun_us >= log.segments[0].ended_us
    assert log.segments[1].ended(8, 0, 0).ended_us == log.segments[1].begun_us


def test_full_pages_leave_the_record_which_goes_on_where_they_end() -> None:
    log = chain(*[2] * (2 * PAGE_SEGMENTS))
    page = log.full_page()
    assert len(page) == PAGE_SEGMENTS
    left = log.without_page(page)
    assert (left.paged_through, left.segments[0].first_position) == (2 * PAGE_SEGMENTS,) * 2
    assert left.full_page() == ()
    assert left.without_page(page) == left, "done twice it changes nothing"
    assert chain(*[2] * (2 * PAGE_SEGMENTS - 1)).full_page() == ()


def test_a_truncation_never_goes_back_and_takes_from_the_chain_only_segments_that_end_before_it() -> None:
    log = chain(3, 5, 2).truncated(7)
    assert log.truncated(4) == log
    assert (log.paged_through, [s.ledger_id for s in log.segments], log.obsolete) == (3, [1, 2], (0,))
    assert (log.truncated(8).paged_through, log.truncated(8).obsolete) == (8, (0, 1))
    assert [s.ledger_id for s in log.given_up().dead_segments()] == [1, 2]


def test_segments_for_which_a_truncation_finds_no_room_leave_the_chain_at_the_next() -> None:
    full = chain(3, 5, 2).with_obsolete(range(100, 100 + OBSOLETE_MAX - 1))
    log = full.truncated(8)
    assert ([s.ledger_id for s in log.dead_segments()], log.obsolete[-1]) == ([1], 0)
    assert log.without_obsolete(log.obsolete).truncated(8).obsolete == (1,)


def test_what_is_left_cannot_begin_behind_the_end() -> None:
    with pytest.raises(ValueError, match="first position 9 is after the end 8"):
        chain(3, 5).truncated(9)


def test_a_record_is_decoded_as_it_was_encoded() -> None:
    settings = LogSettings(Shape(5, 3, 2), DigestType.HMAC_SHA256, 10, 20, 0.25)
    log = begun(replace(chain(3, 0, 5), settings=settings, owner="a/b", legal_hold=True, created_ms=7), 8)
    log = replace(log.truncated(2), nonce=b"n")
    assert log_codec.decode(KEY, log_codec.encode(log)) == log
    assert log_codec.decode_page(KEY, log_codec.encode_page(log.segments[:2], b"n")) == log.segments[:2]
    assert log_codec.decode_name(KEY, log_codec.encode_name(log.identity, b"n")) == log.identity
    assert log_codec.decode_page_time(KEY, log_codec.encode_page_time(8, b"n")) == 8


def broken(**fields: object) -> bytes:
    message = pb.Log.FromString(log_codec.encode(chain(3)))
    for name, value in fields.items():
        setattr(message, name, value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff", "parsing"),
        (b"", "format version 0"),
        (broken(format_version=2), "format version 2; this program supports 1"),
        (broken(identity=b"short"), "5 bytes"),
        (broken(paged_through=1), "begins at 0 instead of 1"),
        (broken(first_position=4), "after the end 3"),
        (broken(roll_bytes=0), "1 byte"),
        (broken(roll_ms=0), "0.001"),
        (broken(digest_type=0), "digest type 0"),
        (broken(ack_quorum=0), "ack quorum 0"),
        (broken(epoch=-1), "negative number"),
    ],
)
def test_a_record_that_cannot_be_trusted_is_refused_by_its_key(value: bytes, why: str) -> None:
    with pytest.raises(BadRecord, match=f"(?s){KEY}.*{why}"):
        log_codec.decode(KEY, value)


@pytest.mark.parametrize("segments", [(), (0, 2), (2,)], ids=["none", "with a hole", "open"])
def test_a_page_that_is_no_closed_chain_is_refused(segments: tuple[int, ...]) -> None:
    log = begun(chain(3, 5), 7)
    page = log_codec.encode_page([log.segments[n] for n in segments], b"n")
    with pytest.raises(BadRecord, match=KEY):
        log_codec.decode_page(KEY, page)
