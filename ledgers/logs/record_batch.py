"""The records of a log, as stored in the entries of its segments: encoded and decoded in batches, by column.

    version     u8   1
    fields      u8   flags of the optional fields that follow, in this order
    time        i64  little-endian, microseconds since 1970 in UTC: when the record was appended
    event time  i64  the same format: the application's own time
    key         u16 length, bytes
    headers     u8 count; for each u8 length, name in UTF-8, u16 length, value
    producer    u8 length, name in UTF-8; i64 sequence of the record among its producer's records
    payload     the rest

Each entry holds one record, whose position is the first position of its segment plus the entry id. The entry's digest
covers the whole record. A later version may add fields; this version refuses records that have added fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from bookie.wire.columnar_entries import Columns
from metadata.records.logs.log_record import PRODUCER_BYTES_MAX

from ..entry import as_bytes, check_bytes, check_int
from ..errors import RecordUnreadable

VERSION = 1

EVENT_TIME, KEY, HEADERS, PRODUCER = 1, 2, 4, 8
FIELDS = EVENT_TIME | KEY | HEADERS | PRODUCER

HEAD_BYTES = 10
"""Size of a record that has no optional fields, without its payload."""

KEY_BYTES_MAX = 2**16 - 1
HEADERS_MAX = 64
HEADER_NAME_BYTES_MAX = 2**8 - 1
HEADER_VALUE_BYTES_MAX = 2**16 - 1
SEQUENCE_MAX = 2**63 - 1

_HEAD = Struct("<BBq")
_TIME = Struct("<q")
_LENGTH = Struct("<H")


class Record(NamedTuple):
    """One confirmed record of a log. `payload`, `key` and `headers` are exactly as they were appended.

    Times are microseconds since 1970 in UTC.
    """

    position: int
    """The record's position in the log."""
    payload: bytes
    """The bytes that were appended."""
    time: int
    """When the record was appended, by the clock of its writer's machine."""
    key: bytes | None
    """The record's key; None if it has none."""
    headers: Mapping[str, bytes]
    """The record's headers, as a mapping of names to bytes; empty if it has none."""
    event_time: int | None
    """The application's own time; None if none was given."""
    producer: str | None = None
    """The producer that appended the record, if the record is to be stored only once; None for other records."""
    sequence: int | None = None
    """The record's number among its producer's records; None without a producer."""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append that has fields besides its payload. Raises TypeError or ValueError for values that a record
    cannot have.

    The caller must not change `headers` before the record is appended.
    """

    payload: bytes
    """The bytes of the record."""
    key: bytes | None = None
    """Up to KEY_BYTES_MAX (65,535) bytes; None for no key."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    """Up to HEADERS_MAX (64) names of 1 to 255 bytes in UTF-8, each with up to 65,535 bytes."""
    event_time: int | None = None
    """The application's own time, in microseconds since 1970 in UTC; None if there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", as_bytes(self.payload))
        if self.key is not None:
            _check_size("the key", self.key, KEY_BYTES_MAX)
        if self.event_time is not None:
            _check_time(self.event_time)
        if not isinstance(self.headers, Mapping):
            raise TypeError(f"headers must be a dict of names to bytes, not {type(self.headers).__name__}")
        if len(self.headers) > HEADERS_MAX:
            raise ValueError(f"a record can have at most {HEADERS_MAX} headers, not {len(self.headers)}")
        for name, value in self.headers.items():
            if not 0 < len(_utf8(name)) <= HEADER_NAME_BYTES_MAX:
                raise ValueError(
                    f"a header's name must be 1 to {HEADER_NAME_BYTES_MAX} bytes of UTF-8, not {name!r}"
                )
            _check_size(f"the header {name!r}", value, HEADER_VALUE_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Numbered(NewRecord):
    """A record that is to be stored only once, identified by its producer and its sequence."""

    producer: str = ""
    """The producer's name, 1 to PRODUCER_BYTES_MAX bytes in UTF-8."""
    sequence: int = 0
    """The number of the record among its producer's records, 0 to SEQUENCE_MAX."""

    def __post_init__(self) -> None:
        NewRecord.__post_init__(self)  # super() fails, because `slots` replaces the class
        if not 0 < len(_utf8(self.producer, "a producer's name")) <= PRODUCER_BYTES_MAX:
            raise ValueError(
                f"a producer's name must be 1 to {PRODUCER_BYTES_MAX} bytes of UTF-8, not {self.producer!r}"
            )
        check_int("a sequence", self.sequence)
        if not 0 <= self.sequence <= SEQUENCE_MAX:
            raise ValueError(f"a sequence must be 0 to {SEQUENCE_MAX}, not {self.sequence}")


class EncodedRecords(NamedTuple):
    """Entries with a common beginning: each consists of `head` followed by one of `rests`. This form avoids copying
    payloads."""

    head: bytes
    rests: Sequence[bytes]

    def entries(self) -> list[bytes]:
        head = self.head
        return [head + rest for rest in self.rests]

    def cut(self, start: int, stop: int) -> EncodedRecords:
        """Returns the records with indexes from `start` up to but not including `stop`."""
        return EncodedRecords(self.head, self.rests[start:stop])

    @property
    def size_bytes(self) -> int:
        return len(self.head) * len(self.rests) + sum(map(len, self.rests))


def encode(records: Sequence[bytes | NewRecord], time: int) -> EncodedRecords:
    """Encodes records appended at `time` as entries; the caller must not change `records` afterwards.

    Raises TypeError for anything but `bytes` and `NewRecord`.
    """
    head = _HEAD.pack(VERSION, 0, time)
    if all(map(isinstance, records, repeat(bytes))):
        return EncodedRecords(head, records)  # type: ignore[arg-type]
    return EncodedRecords(b"", [_encoded(record, head, time) for record in records])


def entry_bytes(record: bytes | NewRecord) -> int:
    """Returns the size of a record when stored as an entry."""
    return HEAD_BYTES + len(record) if type(record) is bytes else encode([record], 0).size_bytes


def _encoded(record: bytes | NewRecord, head: bytes, time: int) -> bytes:
    if not isinstance(record, NewRecord):
        return head + as_bytes(record)
    fields, parts = 0, [b""]
    if record.event_time is not None:
        fields |= EVENT_TIME
        parts.append(_TIME.pack(record.event_time))
    if record.key is not None:
        fields |= KEY
        parts += _LENGTH.pack(len(record.key)), record.key
    if record.headers:
        fields |= HEADERS
        parts.append(_headers(record.headers))
    if isinstance(record, Numbered):
        fields |= PRODUCER
        producer = record.producer.encode()
        parts += bytes([len(producer)]), producer, _TIME.pack(record.sequence)
    parts[0] = _HEAD.pack(VERSION, fields, time)
    return b"".join((*parts, record.payload))


def _headers(headers: Mapping[str, bytes]) -> bytes:
    parts = [bytes([len(headers)])]
    for name, value in headers.items():
        encoded = name.encode()
        parts += bytes([len(encoded)]), encoded, _LENGTH.pack(len(value)), value
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Decoded records, one column for each field: index n of every column belongs to record n."""

    positions: Sequence[int]
    """Positions in the log, in ascending order."""
    payloads: Sequence[bytes]
    """The bytes that were appended."""
    times: Sequence[int]
    """When each record was appended, in microseconds since 1970 in UTC, by the clock of its writer's machine."""
    keys: Sequence[bytes | None]
    """Keys; None for a record without one."""
    headers: Sequence[Mapping[str, bytes]]
    """Headers, as mappings of names to bytes; empty for a record without headers."""
    event_times: Sequence[int | None]
    """The application's own times, in microseconds since 1970 in UTC; None for a record without one."""
    producers: Sequence[str | None]
    """Producers of records that are stored only once; None for other records."""
    sequences: Sequence[int | None]
    """Sequence numbers, each among its producer's records; None for records without a producer."""

    def __len__(self) -> int:
        return len(self.positions)

    def cut(self, start: int, stop: int) -> RecordBatch:
        """Returns the records with indexes from `start` up to but not including `stop`."""
        return RecordBatch(*[column[start:stop] for column in _columns_of(self)])

    def records(self) -> list[Record]:
        """Returns the records one by one, as tuples."""
        return list(map(Record._make, zip(*_columns_of(self), strict=True)))


_columns_of = attrgetter(*(column.name for column in fields(RecordBatch)))


def decode(columns: Columns, *, segment_start: int) -> RecordBatch:
    """Decodes entries of the segment whose first record has the position `segment_start`. The result does not keep any
    page in memory.

    Raises RecordUnreadable for the first entry that is damaged, is not a record, or has a later version; all entries
    before that one can be decoded.
    """
    try:
        return _decoded(columns, [segment_start + entry_id for entry_id in columns.ids])
    except RecordUnreadable as error:
        before = columns.between(0, error.position - segment_start - 1)
        decode(before, segment_start=segment_start)  # raises if an earlier entry is unreadable too
        raise


def _decoded(columns: Columns, positions: Sequence[int]) -> RecordBatch:
    if min(columns.sizes, default=HEAD_BYTES) < HEAD_BYTES:
        short = next(n for n, size in enumerate(columns.sizes) if size < HEAD_BYTES)
        why = f"it has {columns.sizes[short]} bytes, so it is not a record of a log"
        raise RecordUnreadable(positions[short], why)
    each = "BBq{}s".format
    rows = Struct("<" + "".join([each(size - HEAD_BYTES) for size in columns.sizes])).unpack(columns.payload)
    versions, fields, times, rests = rows[0::4], rows[1::4], rows[2::4], rows[3::4]
    _check_versions(positions, versions, fields)
    if any(fields):
        return _with_fields(positions, fields, times, rests)
    none = [None] * len(positions)
    return RecordBatch(positions, rests, times, none, [{} for _ in positions], none, none, none)


def _check_versions(positions: Sequence[int], versions: Sequence[int], fields: Sequence[int]) -> None:
    if set(versions) <= {VERSION} and max(fields, default=0) <= FIELDS:
        return
    for position, version, present in zip(positions, versions, fields, strict=True):
        if version != VERSION or present > FIELDS:
            what = f"it has version {version} with fields {present:#04x}"
            why = "a newer program wrote it and can read it, or it is not a record of a log"
            raise RecordUnreadable(position, f"{what}: {why}")


def _with_fields(
    positions: Sequence[int], fields: Sequence[int], times: Sequence[int], rests: Sequence[bytes]
) -> RecordBatch:
    """Returns the batch for entries of which at least one has optional fields."""
    payloads, keys, headers, event_times, producers, sequences = [], [], [], [], [], []
    for position, present, rest in zip(positions, fields, rests, strict=True):
        cursor = _Cursor(position, rest)
        event_times.append(cursor.time() if present & EVENT_TIME else None)
        keys.append(cursor.take(cursor.number(2)) if present & KEY else None)
        headers.append(cursor.headers() if present & HEADERS else {})
        producers.append(cursor.text("a producer") if present & PRODUCER else None)
        sequences.append(cursor.time() if present & PRODUCER else None)
        payloads.append(cursor.rest())
    return RecordBatch(positions, payloads, times, keys, headers, event_times, producers, sequences)


class _Cursor:
    """Reads the optional fields of one entry. Raises RecordUnreadable for a field that extends past the entry's end."""

    def __init__(self, position: int, content: bytes) -> None:
        self._position = position
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._content):
            raise self._damaged("a field extends past the end of the record")
        return self._content[begin : self._at]

    def rest(self) -> bytes:
        return self._content[self._at :]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def time(self) -> int:
        return int.from_bytes(self.take(8), "little", signed=True)

    def headers(self) -> dict[str, bytes]:
        count = self.number(1)
        if not 0 < count <= HEADERS_MAX:
            raise self._damaged(f"{count} headers")
        return {self.text("a header"): self.take(self.number(2)) for _ in range(count)}

    def text(self, of: str) -> str:
        encoded = self.take(self.number(1))
        try:
            name = encoded.decode()
        except UnicodeDecodeError:
            raise self._damaged(f"the name of {of} is not UTF-8") from None
        if not name:
            raise self._damaged(f"{of} has no name")
        return name

    def _damaged(self, why: str) -> RecordUnreadable:
        return RecordUnreadable(self._position, f"{why}: it is damaged, or not a record of a log")


def _check_time(value: object) -> None:
    if not isinstance(value, int):
        raise TypeError(f"an event time must be a whole number of microseconds, not {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"an event time must be microseconds since 1970 that fit in 64 bits, not {value}")


def _utf8(name: object, what: str = "a header's name") -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"{what} must be text, not {type(name).__name__}")
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be text that UTF-8 can encode, not {name!r}") from None


def _check_size(what: str, value: bytes, bytes_max: int) -> None:
    check_bytes(what, value)
    if len(value) > bytes_max:
        raise ValueError(f"{what} can have at most {bytes_max} bytes, not {len(value)}")
