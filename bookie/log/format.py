"""Encodes and decodes the log's on-disk format: segment headers and records.

A segment file is named by its number, `00000007.log`. It has a header, then records, each aligned
to 8 bytes, then zeros to the end of the preallocated space.

    segment header, 64 bytes
     0  magic        8s  b"bkldgseg"
     8  version      u32
    12  crc32c       u32  over the header with this field zero
    16  segment      u64  the segment's number
    24  incarnation  16s  of the bookie that wrote it
    40  previous_end u64  end of the previous segment; 0 if there was none, or its end was unknown
    48  zeros        16s

    record header, 80 bytes
     0  magic        u32  0x6472636B
     4  crc32c       u32  over the header from offset 8 on, then the body
     8  position     u64  the record's place: segment << 32 | offset
    16  synced       u64  everything before this position was on disk when this record was written
    24  kind         u8   1 entries, 2 fence, 3 state, 4 lost, 5 segments
    25  flags        u8   1 recovery, 2 carries a last-add-confirmed, 4 the ledger's verifier, 8 its identity, 16 a note
    26  lac_digest   u16  width of the digest that begins the body
    28  body         u32  bytes that follow
    32  ledger       i64
    40  first_entry  i64
    48  last_entry   i64
    56  lac          i64
    64  lac_length   i64
    72  entries      u32
    76  digests      u32  bytes of the digests column

    body of an entries record: lac digest | verifier | identity | note | entry ids | lengths | digests | payload
    body of a fence record:    verifier | identity
    body of a state record:    note | the ledger's whole state, as in the index (`local_ledger_state.py`)
    body of a lost record:     zeros, in place of bytes that were damaged; its ledger is -1
    body of a segments record: u32 each, the segments before this one that exist; its ledger is -1

The verifier (32 bytes) authorizes writers of the ledger; a ledger without a password has none. The identity (16
bytes) distinguishes the ledger from others with the same id (rule W8). A note (u32 bytes, then a `FragmentNote`)
describes the ledger and the fragment that the entries belong to; it accompanies the first of these
entries, or is in a record without entries.

Because a record carries its own position, bytes in the wrong place are never mistaken for
a record. Because it carries `synced`, a reader can distinguish a torn tail (never on disk as a whole, so
never acknowledged) from damage to durable data (rule B2): if an unreadable place is followed
by a record whose `synced` lies beyond it, the place was once on disk, and is therefore damaged.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from metadata.records.ledger_record import IDENTITY_BYTES

from ..errors import NewerFormat
from ..wire.columnar_entries import ID_BYTES, LENGTH_BYTES, BadColumns, Columns
from ..wire.messages import NO_IDENTITY, NO_NOTE, VERIFIER_BYTES, LacStatement
from ..wire.named_tuples import made_of

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"bkldgseg"
RECORD_MAGIC = 0x6472636B
RECORD_MAGIC_BYTES = struct.pack("<I", RECORD_MAGIC)
ALIGNMENT = 8
BODY_BYTES_MAX = 8 * 1024 * 1024
"""Maximum size of a record's body: a greater length on disk means damage. Also limits the memory that a reader
allocates."""

SEGMENT_HEADER = struct.Struct("<8sIIQ16sQ16x")
_SEGMENT_HEADER_ZEROS = 16
RECORD_HEADER = struct.Struct("<IIQQBBHIqqqqqII")
_MAGIC_AND_CRC = struct.Struct("<II")
_NOTE_BYTES = struct.Struct("<I")
_AFTER_CRC = _MAGIC_AND_CRC.size
_HEADER_TAIL = struct.Struct(RECORD_HEADER.format.replace("II", "", 1))

assert SEGMENT_HEADER.size == 64
_HEADER_BYTES = RECORD_HEADER.size
assert _HEADER_BYTES == 80


class RecordKind(IntEnum):
    """The type of a record."""

    ENTRIES = 1
    FENCE = 2
    STATE = 3
    LOST = 4
    SEGMENTS = 5


NO_LEDGER = -1
"""Ledger id of records that belong to no ledger."""


_RECOVERY = 1
_HAS_LAC = 2
_HAS_VERIFIER = 4
_HAS_IDENTITY = 8
_HAS_NOTE = 16

_NO_LAC = LacStatement(-1, 0, b"")

Buffer = bytes | memoryview


class BadRecordBytes(ValueError):
    """Bytes that are not a complete, intact record for this position."""


class BookieLogRecord(NamedTuple):
    """One log record without its position. A fence is a separate record without columns (rule R1).

    Entry and fence records carry the ledger's verifier and identity, so no other record is needed to determine these.
    `content` is the body of the kinds of records that have neither columns nor a verifier. `note` describes the
    fragment that the entries belong to; it is in the same record as the first of these entries, or in a separate record
    without entries.
    """

    kind: RecordKind
    ledger_id: int
    columns: Columns | None = None
    last_add_confirmed: LacStatement | None = None
    recovery: bool = False
    verifier: bytes = b""
    content: bytes = b""
    identity: bytes = NO_IDENTITY
    note: bytes = NO_NOTE

    @property
    def is_urgent(self) -> bool:
        """Whether the record may use the last of the disk space: it serves recovery, or frees space (rule B4)."""
        return self.kind is not RecordKind.ENTRIES or self.recovery


new_record: Callable[
    [tuple[RecordKind, int, Columns | None, LacStatement | None, bool, bytes, bytes, bytes, bytes]],
    BookieLogRecord,
] = made_of(BookieLogRecord)


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """The fixed part of a record as read from disk."""

    crc: int
    position: int
    synced: int
    kind: int
    flags: int
    lac_digest_bytes: int
    body_bytes: int
    ledger_id: int
    first_entry: int
    last_entry: int
    lac: int
    lac_length_bytes: int
    entries: int
    digests_bytes: int

    @property
    def record_bytes(self) -> int:
        return aligned(RECORD_HEADER.size + self.body_bytes)


def position_of(segment: int, offset: int) -> int:
    """Encodes a place in the log as one number; positions increase in write order."""
    assert 0 <= offset < 1 << 32
    return segment << 32 | offset


def place_of(position: int) -> tuple[int, int]:
    """Decodes a position into (segment, offset)."""
    return position >> 32, position & 0xFFFFFFFF


def aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Fields of a segment's header."""

    segment: int
    incarnation: str
    previous_end: int = 0


def encode_segment_header(header: SegmentHeader) -> bytes:
    identity = uuid.UUID(header.incarnation).bytes
    fields = (header.segment, identity, header.previous_end)
    blank = SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT_VERSION, 0, *fields)
    return SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT_VERSION, crc32c(blank), *fields)


def decode_segment_header(data: bytes) -> SegmentHeader:
    """Decodes and verifies the header. Raises BadRecordBytes, or NewerFormat, which must not be mistaken for damage."""
    if len(data) < SEGMENT_HEADER.size:
        raise BadRecordBytes("the segment header is cut short")
    magic, version, crc, segment, identity, previous_end = SEGMENT_HEADER.unpack_from(data)
    blank = SEGMENT_HEADER.pack(magic, version, 0, segment, identity, previous_end)
    rest = SEGMENT_HEADER.size - _SEGMENT_HEADER_ZEROS
    if magic != SEGMENT_MAGIC or crc != crc32c(blank) or any(data[rest : SEGMENT_HEADER.size]):
        raise BadRecordBytes("this is not a segment header of a bookie, or it is damaged")
    if version != FORMAT_VERSION:
        raise NewerFormat(f"segment {segment:08x} of the log", FORMAT_VERSION)
    return SegmentHeader(segment, str(uuid.UUID(bytes=identity)), previous_end)


def record_bytes(record: BookieLogRecord) -> int:
    """Returns the record's size in the log, including header and padding."""
    return aligned(_HEADER_BYTES + sum(map(len, _body(record))))


def encode_record(record: BookieLogRecord, *, position: int, synced: int) -> list[Buffer]:
    """Encodes the record for this position as buffers to be written one after the other."""
    *small, large = _body(record)
    names = b"".join(small)
    body_bytes = len(names) + len(large)
    assert body_bytes <= BODY_BYTES_MAX
    tail = _header_tail(record, body_bytes, position, synced) + names
    crc = crc32c(large, crc32c(tail))
    padding = -(_HEADER_BYTES + body_bytes) % ALIGNMENT
    return [_MAGIC_AND_CRC.pack(RECORD_MAGIC, crc) + tail, large, bytes(padding)]


def _body(record: BookieLogRecord) -> list[Buffer]:
    """Returns the body in parts; only the last one may be large."""
    lac_digest = record.last_add_confirmed.digest if record.last_add_confirmed else b""
    note = _NOTE_BYTES.pack(len(record.note)) + record.note if record.note else NO_NOTE
    names = lac_digest, record.verifier, record.identity, note
    columns = record.columns
    if columns is None:
        return [*names, record.content]
    return [*names, columns.entry_ids, columns.lengths, columns.digests, columns.payload]


def _header_tail(record: BookieLogRecord, body_bytes: int, position: int, synced: int) -> bytes:
    kind, ledger_id, columns, lac, recovery, verifier, _, identity, note = record
    flags = (_RECOVERY if recovery else 0) | (_HAS_LAC if lac else 0) | (_HAS_VERIFIER if verifier else 0)
    flags |= (_HAS_IDENTITY if identity else 0) | (_HAS_NOTE if note else 0)
    lac_entry, lac_length, lac_digest = lac or _NO_LAC
    entries, digests_bytes, first_entry, last_entry = 0, 0, -1, -1
    if columns is not None and (entries := len(columns)):
        digests_bytes, first_entry, last_entry = len(columns.digests), columns.first_entry, columns.last_entry
    # fmt: off
    return _HEADER_TAIL.pack(
        position, synced, kind, flags, len(lac_digest), body_bytes, ledger_id, first_entry, last_entry,
        lac_entry, lac_length, entries, digests_bytes,
    )
    # fmt: on


def decode_header(data: Buffer, *, position: int) -> RecordHeader:
    """Decodes the header at the start of `data`, and verifies it as far as possible without the body."""
    if len(data) < RECORD_HEADER.size:
        raise BadRecordBytes("the record header is cut short")
    magic, *fields = RECORD_HEADER.unpack_from(data)
    header = RecordHeader(*fields)
    if magic != RECORD_MAGIC:
        raise BadRecordBytes("no record begins here")
    if header.position != position or header.synced > position:
        raise BadRecordBytes("the record belongs to another position")
    if header.body_bytes > BODY_BYTES_MAX:
        raise BadRecordBytes(f"the record claims a body of {header.body_bytes} bytes")
    return header


def decode_record(data: Buffer, *, position: int) -> tuple[RecordHeader, BookieLogRecord]:
    """Decodes and verifies the complete record at the start of `data`. Raises BadRecordBytes."""
    header = decode_header(data, position=position)
    end = RECORD_HEADER.size + header.body_bytes
    if len(data) < end:
        raise BadRecordBytes("the record is cut short")
    view = memoryview(data)
    if crc32c(view[_AFTER_CRC:end]) != header.crc:
        raise BadRecordBytes("checksum mismatch in the record")
    return header, _record(header, view[RECORD_HEADER.size : end])


def _record(header: RecordHeader, body: memoryview) -> BookieLogRecord:
    lac_digest, body = _split(body, header.lac_digest_bytes)
    verifier, body = _split(body, VERIFIER_BYTES if header.flags & _HAS_VERIFIER else 0)
    identity, body = _split(body, IDENTITY_BYTES if header.flags & _HAS_IDENTITY else 0)
    note, body = _split_note(body) if header.flags & _HAS_NOTE else (NO_NOTE, body)
    lac = None
    if header.flags & _HAS_LAC:
        lac = LacStatement(header.lac, header.lac_length_bytes, lac_digest)
    try:
        kind = RecordKind(header.kind)
        columns = _columns(header, body) if kind is RecordKind.ENTRIES else None
    except ValueError as error:
        raise BadRecordBytes(str(error)) from error
    content = b"" if kind in (RecordKind.ENTRIES, RecordKind.FENCE, RecordKind.LOST) else bytes(body)
    is_recovery = bool(header.flags & _RECOVERY)
    return BookieLogRecord(
        kind, header.ledger_id, columns, lac, is_recovery, verifier, content, identity, note
    )


def _split(body: memoryview, size: int) -> tuple[bytes, memoryview]:
    return bytes(body[:size]), body[size:]


def _split_note(body: memoryview) -> tuple[bytes, memoryview]:
    size, body = _split(body, _NOTE_BYTES.size)
    if len(size) < _NOTE_BYTES.size or (note_bytes := _NOTE_BYTES.unpack(size)[0]) > len(body):
        raise BadRecordBytes("the note is longer than the record")
    return _split(body, note_bytes)


def _columns(header: RecordHeader, body: memoryview) -> Columns:
    widths: Sequence[int] = (header.entries * ID_BYTES, header.entries * LENGTH_BYTES, header.digests_bytes)
    if sum(widths) > len(body):
        raise BadColumns("the columns are longer than the record")
    parts, begin = [], 0
    for width in widths:
        parts.append(bytes(body[begin : begin + width]))
        begin += width
    return Columns(parts[0], parts[1], parts[2], body[begin:])
