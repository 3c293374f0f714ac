"""What is read from a disk: the log, the index, a bookie's state, the records of logs. Checksums are made to fit."""

from __future__ import annotations

import struct

from crc32c import crc32c

from bookie.errors import NewerFormat
from bookie.index.frame_locations import KEY, SPAN_CLASSES, FrameLocation, from_row, to_row
from bookie.index.local_ledger_state import LocalLedgerState
from bookie.log.format import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    BadRecordBytes,
    BookieLogRecord,
    RecordKind,
    SegmentHeader,
    decode_record,
    decode_segment_header,
    encode_record,
    encode_segment_header,
    position_of,
)
from bookie.wire import of_payloads
from ledgers import NewRecord, RecordUnreadable
from ledgers.logs.record_batch import decode, encode
from tests.bookie.entries import columns_of, entry_of, lac_of

from .target import Target

POSITION = position_of(3, 4096)
INCARNATION = "6a1f0a52-9d3c-4a57-8a55-3a9b0f7d5a11"


def targets() -> list[Target]:
    return [
        Target("segment_header", segment_header, (BadRecordBytes, NewerFormat), _segment_headers),
        Target("record", record, (BadRecordBytes,), _records),
        Target("ledger_state", ledger_state, (ValueError,), _states),
        Target("place", place, (ValueError,), _places),
        Target("log_record", log_record, (RecordUnreadable,), _log_records),
    ]


def segment_header(data: bytes) -> None:
    """Its checksum lies behind magic and version, and covers the rest with zeros in its own place."""
    if len(data) >= SEGMENT_HEADER.size:
        magic, version, _, *fields = SEGMENT_HEADER.unpack_from(data)
        summed = SEGMENT_HEADER.pack(
            magic, version, crc32c(SEGMENT_HEADER.pack(magic, version, 0, *fields)), *fields
        )
        data = summed + data[SEGMENT_HEADER.size :]
    header = decode_segment_header(data)
    assert decode_segment_header(encode_segment_header(header)) == header


def record(data: bytes) -> None:
    """With a checksum, a place and a size that fit, the rest is whatever it is."""
    if len(data) >= RECORD_HEADER.size:
        magic, _, _, synced, kind, flags, lac_digest, _, *rest = RECORD_HEADER.unpack_from(data)
        body = data[RECORD_HEADER.size :]
        fields = (POSITION, min(synced, POSITION), kind, flags, lac_digest, len(body), *rest)
        tail = RECORD_HEADER.pack(magic, 0, *fields)[8:] + body
        data = struct.pack("<II", magic, crc32c(tail)) + tail
    header, found = decode_record(data, position=POSITION)
    assert header.position == POSITION and (found.columns is None) == (found.kind is not RecordKind.ENTRIES)


def ledger_state(data: bytes) -> None:
    found = LocalLedgerState.decode(7, data)
    assert LocalLedgerState.decode(7, found.encode()) == found


def place(data: bytes) -> None:
    _, span, found = from_row(data[: KEY.size], data[KEY.size :])
    assert isinstance(found, FrameLocation) and span >= 0


def log_record(data: bytes) -> None:
    (found,) = decode(of_payloads(3, [data], bytes(4)), segment_start=10).records()
    again = encode([NewRecord(found.payload, found.key, found.headers, found.event_time)], found.time)
    assert decode(of_payloads(3, again.entries(), bytes(4)), segment_start=10).records() == [found]


def _log_records() -> list[bytes]:
    full = NewRecord(b"full", key=b"k", headers={"é": b"v", "n": b""}, event_time=-1)
    return encode([b"bare", full], 5).entries()


def _segment_headers() -> list[bytes]:
    return [encode_segment_header(SegmentHeader(3, INCARNATION, 99))]


def _records() -> list[bytes]:
    columns = columns_of([entry_of(7, n) for n in range(3)])
    records = [
        BookieLogRecord(RecordKind.ENTRIES, 7, columns, lac_of(1), recovery=True, verifier=bytes(32)),
        BookieLogRecord(RecordKind.FENCE, 7, None, None, recovery=False, verifier=b""),
    ]
    return [b"".join(map(bytes, encode_record(one, position=POSITION, synced=0))) for one in records]


def _states() -> list[bytes]:
    state = LocalLedgerState(7)
    state.note_lac(lac_of(3))
    return [LocalLedgerState(7).encode(), state.encode()]


def _places() -> list[bytes]:
    return [
        b"".join(to_row(7, FrameLocation(0, POSITION, 16**n, 2, 100))) for n in range(0, SPAN_CLASSES - 2, 5)
    ]
