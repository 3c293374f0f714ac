"""Encodes a record as a line of JSON, and decodes it. Bytes are encoded in base64; a record written by hand may contain
plain text instead."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ledgers import NewRecord, Record
from ledgers.logs.record_batch import Numbered
from ledgers.logs.writing.checked_records import numbering

from ..payloads.cutting import base64_in, payload_of


def json_line(record: Record) -> bytes:
    """Returns the record as one line, with only the fields that it has."""
    is_bare = record.key is None and not record.headers and record.event_time is None
    if is_bare and record.producer is None:
        payload = base64.b64encode(record.payload)
        return b'{"position":%d,"time_us":%d,"payload_base64":"%s"}\n' % (
            record.position,
            record.time,
            payload,
        )
    return json.dumps(_fields(record), separators=(",", ":")).encode() + b"\n"


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {"position": record.position, "time_us": record.time}
    if record.event_time is not None:
        fields["event_time_us"] = record.event_time
    if record.key is not None:
        fields["key_base64"] = _base64(record.key)
    if record.headers:
        fields["headers_base64"] = {name: _base64(value) for name, value in record.headers.items()}
    if record.producer is not None:
        fields |= {"producer": record.producer, "sequence": record.sequence}
    return {**fields, "payload_base64": _base64(record.payload)}


def new_record_in(fields: object) -> NewRecord:
    """Returns the record to append, as described by a decoded line. Its position and time are ignored. Raises
    ValueError."""
    payload = payload_of(fields)
    assert isinstance(fields, Mapping)
    producer, sequence = fields.get("producer"), fields.get("sequence")
    try:
        known = payload, _key_in(fields), _headers_in(fields), fields.get("event_time_us")
        if producer is None and sequence is None:
            return NewRecord(*known)
        return Numbered(*known, *numbering(producer, sequence))
    except TypeError as error:
        raise ValueError(str(error)) from None


def _key_in(fields: Mapping[str, object]) -> bytes | None:
    name, key = _one_of(fields, "key")
    return None if key is None else _bytes_of(name, key)


def _headers_in(fields: Mapping[str, object]) -> dict[str, bytes]:
    name, headers = _one_of(fields, "headers")
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise TypeError(f"{name} must be an object with a value for each header")
    return {header: _bytes_of(name, value) for header, value in headers.items()}


def _one_of(fields: Mapping[str, object], name: str) -> tuple[str, object]:
    """Returns whichever of `name` and `name`_base64 exists, and its value; the value is None if neither exists."""
    encoded = f"{name}_base64"
    if name in fields and encoded in fields:
        raise ValueError(f"both {name} and {encoded} are given")
    return (name, fields[name]) if name in fields else (encoded, fields.get(encoded))


def _bytes_of(name: str, value: object) -> bytes:
    if name.endswith("_base64"):
        return base64_in(value, name)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text; use {name}_base64 for bytes")
    return value.encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
