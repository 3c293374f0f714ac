"""Converts our requests and answers to QJournalProtocol's messages, and back.

Fields that have the same name in both are equal, except for negative numbers, which Hadoop carries in unsigned fields,
and for the few special forms at the end of this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from metadata.records.journal_record import JournalStorage

from ...edits.op_frames import encode_header
from ...requests import (
    INVALID_TXID,
    AcceptRecovery,
    CanRollBack,
    Format,
    GetJournaledEdits,
    JournaledEdits,
    Manifest,
    NamespaceInfo,
    RemoteEditLog,
    RequestInfo,
    SegmentState,
)
from . import hadoop_pb2 as pb

T = TypeVar("T")

Decoder = Callable[[Any, dict[str, Any]], Any]

UNKNOWN_TXID = INVALID_TXID & 0xFFFFFFFFFFFFFFFF
"""Hadoop's "no transaction" in an unsigned field."""

TXNS_MAX = 100_000
"""Maximum number of edits in one answer to getJournaledEdits, whatever was requested. Their bytes are limited as well.
"""

_OURS = 1001
"""The first field number that Hadoop does not use. Our own fields have this number or a higher one, and are omitted if
they carry no information."""

_BITS_32, _BITS_64, _SIGN_64 = 1 << 32, 1 << 64, 1 << 63


def signed_64(number: int) -> int:
    return number - _BITS_64 if number >= _SIGN_64 else number


def journal_id_of(message: Any) -> str:
    """Returns the journal id of a call, which is in one of two fields."""
    named = message.info if "info" in message.DESCRIPTOR.fields_by_name else message
    identifier: str = named.journal_id.identifier
    return identifier


def decoded(kind: type[T], message: Message, **also: Any) -> T:
    """Decodes an answer from its message. A field that is missing, or has Hadoop's "none" value, gets its default."""
    found: T = decoder_of(kind, type(message))(message, also)  # type: ignore[arg-type]  # classes are hashable
    return found


def fields_of(value: Any, message: type[Message]) -> dict[str, Any]:
    """Returns the message fields of a request or an answer. Raises ValueError if a number does not fit in Hadoop's 32
    bits."""
    found = {
        name: one if write is None else write(one)
        for name, write, is_ours in _writers(message)  # type: ignore[arg-type]  # classes are hashable
        if (one := getattr(value, name, None)) is not None and (one or not is_ours)
    }
    apart = _WRITTEN_APART.get(type(value))
    return found if apart is None else found | apart(value)


@cache
def decoder_of(kind: Any, message: Any) -> Decoder:
    """Returns a function that creates a request or an answer from a message and the additional values `also`.

    The function is compiled for each kind, as dataclasses compile their methods, because it runs for each batch.

        lambda m, also: kind(info=read0(m.info), num_txns=m.num_txns, …, **also)
    """
    names: dict[str, Any] = {"kind": kind, "NONE": INVALID_TXID}
    arguments: list[str] = []
    apart = _READ_APART.get(kind, {})
    for one in dataclasses.fields(kind):
        field = message.DESCRIPTOR.fields_by_name.get(one.name)
        if one.name in apart:
            names[f"read_{one.name}"] = apart[one.name]
            arguments.append(f"{one.name}=read_{one.name}(m)")
        elif field is not None:
            names[f"read_{one.name}"], names[f"default_{one.name}"] = _reader(field), one.default
            arguments.append(f"{one.name}={_expression(field)}")
    decode: Decoder = eval(f"lambda m, also: kind({', '.join([*arguments, '**also'])})", names)
    return decode


def _expression(field: Any) -> str:
    value = f"m.{field.name}" if _reader(field) is None else f"read_{field.name}(m.{field.name})"
    if field.is_required or field.is_repeated:
        return value
    default = f"default_{field.name}"
    return f"(v if m.HasField('{field.name}') and (v := {value}) != NONE else {default})"


def _reader(field: Any) -> Callable[[Any], Any] | None:
    """Returns the function that converts Hadoop's value to ours, or None if no conversion is needed."""
    if field.message_type is not None:
        decode = decoder_of(_NESTED[field.message_type.name], getattr(pb, field.message_type.name))
        if field.is_repeated:
            return lambda found: tuple([decode(one, {}) for one in found])
        return lambda found: decode(found, {})
    if _is_signed_32(field):
        return lambda number: number - _BITS_32 if number >= _BITS_32 // 2 else number
    return signed_64 if field.type == field.TYPE_UINT64 else None


@cache
def _writers(message: Any) -> list[tuple[str, Callable[[Any], Any] | None, bool]]:
    return [(field.name, _writer(field), field.number >= _OURS) for field in message.DESCRIPTOR.fields]


def _writer(field: Any) -> Callable[[Any], Any] | None:
    """Returns the function that converts our value to Hadoop's, or None if no conversion is needed."""
    if field.message_type is not None:
        written = partial(fields_of, message=getattr(pb, field.message_type.name))
        return (lambda values: [written(one) for one in values]) if field.is_repeated else written
    if _is_signed_32(field):
        return _unsigned_32
    return bytes if field.type == field.TYPE_BYTES else None


def _unsigned_32(number: int) -> int:
    if not -_BITS_32 // 2 <= number < _BITS_32 // 2:
        raise ValueError(f"{number} has more than 32 bits")
    return number % _BITS_32


def _is_signed_32(field: Any) -> bool:
    return field.type == field.TYPE_UINT32 and field.name in ("layout_version", "namespace_id")


# --- special forms --------------------------------------------------------------------------------------------------

_NESTED: dict[str, type] = {
    "Manifest": Manifest,
    "NamespaceInfo": NamespaceInfo,
    "RemoteEditLog": RemoteEditLog,
    "RequestInfo": RequestInfo,
    "SegmentState": SegmentState,
    "StorageInfo": JournalStorage,
}

_READ_APART: dict[type, dict[str, Callable[[Any], Any]]] = {
    AcceptRecovery: {"source": lambda message: message.from_url},
    # NameNodes of 2.7 send no force flag: their format always discards the contents.
    Format: {"force": lambda message: not message.HasField("force") or message.force},
    GetJournaledEdits: {
        "max_txns": lambda message: min(message.max_txns, TXNS_MAX),
        "cached_only": lambda message: not message.from_ledgers,
    },
    NamespaceInfo: {
        name: lambda message, name=name: getattr(decoded(JournalStorage, message.storage), name)  # type: ignore[misc]
        for name in ("namespace_id", "cluster_id", "c_time", "layout_version")
    },
}

_NO_STORAGE = {"layout_version": 0, "namespace_id": 0, "cluster_id": "", "c_time": 0}

_WRITTEN_APART: dict[type, Callable[[Any], dict[str, Any]]] = {
    AcceptRecovery: lambda request: {"from_url": request.source},
    CanRollBack: lambda request: {
        "storage": _NO_STORAGE,
        "previous": _NO_STORAGE | {"layout_version": request.target_layout_version % _BITS_32},
    },
    GetJournaledEdits: lambda request: {"from_ledgers": not request.cached_only},
    JournaledEdits: lambda edits: (
        {"edit_log": encode_header(edits.layout_version) + bytes(edits.records)} if edits.txn_count else {}
    ),
    Manifest: lambda manifest: {"committed_txid": UNKNOWN_TXID} if manifest.committed_txid is None else {},
    NamespaceInfo: lambda _: {"unused": 0},
}
