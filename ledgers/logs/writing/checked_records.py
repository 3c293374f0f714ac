"""The records of an append, all checked before any of them is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from ...entry import Payload, as_bytes
from ...errors import EntryTooLarge
from ...writing.checked_batch import listed
from ..record_batch import NewRecord, Numbered, entry_bytes


class CheckedRecords:
    """A checked batch. Raises EntryTooLarge, and TypeError for anything but payloads and NewRecord; in both cases no
    record of the batch is appended. `size_bytes`: the size of the records when stored as entries."""

    def __init__(self, records: Sequence[Payload | NewRecord], entry_bytes_max: int) -> None:
        self.payloads = [one if isinstance(one, NewRecord) else as_bytes(one) for one in listed(records)]
        self.size_bytes = sum([size_of(record, entry_bytes_max) for record in self.payloads])


class KeyedFields(TypedDict, total=False):
    """Optional fields of a record with a key, as in `NewRecord`. A record with a producer and a sequence is stored only
    once."""

    headers: Mapping[str, bytes] | None
    """Header names and their bytes, as in `NewRecord`."""
    event_time: int | None
    """The application's own time, in microseconds since 1970 in UTC."""
    producer: str | None
    """The name of the producer that numbers its records; requires a `sequence`."""
    sequence: int | None
    """The number of the record among its producer's records. Numbers must rise, and may have gaps."""


class RecordFields(KeyedFields, total=False):
    """Optional fields of a record, as in `NewRecord`. A record with a producer and a sequence is stored only once."""

    key: bytes | None
    """The key of the record, as in `NewRecord`."""


def record_of(
    payload: Payload,
    key: bytes | None = None,
    headers: Mapping[str, bytes] | None = None,
    event_time: int | None = None,
    producer: str | None = None,
    sequence: int | None = None,
) -> bytes | NewRecord:
    """Returns the record to append, which is just the payload if no other field is given. Raises TypeError,
    ValueError."""
    payload = as_bytes(payload)
    if producer is not None or sequence is not None:
        return Numbered(payload, key, headers or {}, event_time, *numbering(producer, sequence))
    if key is None and not headers and event_time is None:
        return payload
    return NewRecord(payload, key, headers or {}, event_time)


def numbering(producer: str | None, sequence: int | None) -> tuple[str, int]:
    """Returns the producer and the sequence. Raises ValueError if one is given without the other."""
    if producer is None or sequence is None:
        raise ValueError("a record that is to be stored only once needs both a producer and a sequence")
    return producer, sequence


def numbered(records: Sequence[Payload | NewRecord], producer: str, sequence: int) -> list[Numbered]:
    """Returns records with consecutive sequences, so that each is stored only once. Raises TypeError, ValueError."""
    given = [
        record if isinstance(record, NewRecord) else NewRecord(as_bytes(record)) for record in listed(records)
    ]
    return [
        Numbered(one.payload, one.key, one.headers, one.event_time, producer, sequence + n)
        for n, one in enumerate(given)
    ]


def size_of(record: bytes | NewRecord, entry_bytes_max: int) -> int:
    """Returns the size of a record when stored as an entry. Raises EntryTooLarge, TypeError."""
    size = entry_bytes(record)
    if size > entry_bytes_max:
        raise EntryTooLarge(size, entry_bytes_max)
    return size
