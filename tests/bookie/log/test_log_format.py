"""A record on disk is exactly what was written, at the place it was written to, or it is no record."""

from __future__ import annotations

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.log.format import (
    ALIGNMENT,
    RECORD_HEADER,
    SEGMENT_HEADER,
    BadRecordBytes,
    BookieLogRecord,
    RecordKind,
    SegmentHeader,
    decode_header,
    decode_record,
    decode_segment_header,
    encode_record,
    encode_segment_header,
    place_of,
    position_of,
    record_bytes,
)
from bookie.wire.messages import VERIFIER_BYTES
from tests.bookie import messages
from tests.bookie.entries import frame_of, lac_of

INCARNATION = "5f0e8e6c-66b0-4f3e-9d0c-2b1f6f0d8a11"
POSITION = position_of(3, 1024)
SYNCED = position_of(3, 512)

frames = frame_of(7, [4, 5], payload_bytes=3, lac=2)
SMALL = BookieLogRecord(RecordKind.ENTRIES, 7, frames.columns, frames.last_add_confirmed, recovery=True)

verifiers = st.just(b"") | st.binary(min_size=VERIFIER_BYTES, max_size=VERIFIER_BYTES)
records = st.builds(
    BookieLogRecord,
    st.just(RecordKind.ENTRIES),
    messages.natural,
    messages.some_columns(),
    messages.maybe_lac,
    st.booleans(),
    verifiers,
    st.just(b""),
    messages.identities,
) | st.builds(
    lambda ledger_id, verifier, identity: BookieLogRecord(
        RecordKind.FENCE, ledger_id, verifier=verifier, identity=identity
    ),
    messages.natural,
    verifiers,
    messages.identities,
)
positions = st.builds(
    position_of, st.integers(0, 2**31), st.integers(0, 2**29 - 1).map(lambda n: n * ALIGNMENT)
)


def encoded(record: BookieLogRecord, position: int = POSITION, synced: int = SYNCED) -> bytes:
    return b"".join(encode_record(record, position=position, synced=synced))


@given(records, positions, st.data())
def test_a_record_comes_back_as_it_was_written(
    record: BookieLogRecord, position: int, data: st.DataObject
) -> None:
    synced = data.draw(st.integers(0, position))
    written = encoded(record, position, synced)
    header, found = decode_record(written, position=position)
    assert found == record
    assert (header.position, header.synced, header.record_bytes) == (position, synced, len(written))


@given(records)
def test_a_record_takes_the_bytes_it_is_said_to_take_and_ends_aligned(record: BookieLogRecord) -> None:
    assert len(encoded(record)) == record_bytes(record)
    assert record_bytes(record) % ALIGNMENT == 0


@given(positions)
def test_a_position_is_a_segment_and_an_offset(position: int) -> None:
    assert position_of(*place_of(position)) == position


def test_any_flipped_bit_of_a_record_is_found() -> None:
    written = encoded(SMALL)
    end = RECORD_HEADER.size + decode_header(written, position=POSITION).body_bytes
    assert end < len(written), "this record has padding, which says nothing and is not looked at"
    for bit in range(end * 8):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRecordBytes):
            decode_record(bytes(damaged), position=POSITION)


def test_a_record_cut_short_anywhere_is_no_record() -> None:
    written = encoded(SMALL)
    end = RECORD_HEADER.size + decode_header(written, position=POSITION).body_bytes
    for size in range(end):
        with pytest.raises(BadRecordBytes):
            decode_record(written[:size], position=POSITION)


@given(positions.filter(lambda position: position != POSITION))
def test_a_record_is_not_accepted_at_another_position(elsewhere: int) -> None:
    with pytest.raises(BadRecordBytes, match="belongs to another position"):
        decode_record(encoded(SMALL), position=elsewhere)


def test_a_record_that_claims_to_be_synced_before_it_was_written_is_not_accepted() -> None:
    with pytest.raises(BadRecordBytes):
        decode_record(encoded(SMALL, synced=POSITION + 8), position=POSITION)


def test_a_record_never_makes_a_reader_allocate_without_bound() -> None:
    written = bytearray(encoded(SMALL))
    written[28:32] = struct.pack("<I", 2**31)
    with pytest.raises(BadRecordBytes, match="claims a body"):
        decode_header(bytes(written), position=POSITION)


@given(st.integers(0, 2**32), st.uuids())
def test_a_segment_header_comes_back_as_it_was_written(segment: int, incarnation: uuid.UUID) -> None:
    header = encode_segment_header(SegmentHeader(segment, str(incarnation)))
    assert decode_segment_header(header) == SegmentHeader(segment, str(incarnation))


def test_any_flipped_bit_of_a_segment_header_is_found() -> None:
    written = encode_segment_header(SegmentHeader(3, INCARNATION))
    for bit in range(SEGMENT_HEADER.size * 8):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRecordBytes):
            decode_segment_header(bytes(damaged))


def test_last_add_confirmed_alone_is_a_record() -> None:
    record = BookieLogRecord(RecordKind.ENTRIES, 7, frame_of(7, []).columns, lac_of(5))
    assert decode_record(encoded(record), position=POSITION)[1] == record
