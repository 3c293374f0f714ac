"""Extended attributes, encoded as a message: without a path in an op that creates a file, with a path in an op that
changes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from ..errors import BrokenOp
from .field_types import FieldType, to_enum
from .java import read_maybe_text, read_text, write_maybe_text, write_text
from .protobuf import (
    Fields,
    maybe_bytes,
    one_int,
    read_delimited,
    read_message,
    refuse_others,
    some_bytes,
    write_delimited,
    write_message,
)


class XAttrNamespace(IntEnum):
    """The namespaces of extended attributes."""

    USER = 0
    TRUSTED = 1
    SECURITY = 2
    SYSTEM = 3
    RAW = 4


@dataclass(frozen=True, slots=True)
class XAttr:
    """An extended attribute. It has no value if it is to be removed."""

    namespace: XAttrNamespace
    name: str
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class XAttrChange:
    """Extended attributes to set or remove."""

    path: str | None
    attributes: tuple[XAttr, ...]


def _read_change(data: bytes, at: int) -> tuple[XAttrChange, int]:
    fields, end = read_delimited(data, at)
    refuse_others(fields, (1, 2))
    attributes = tuple([_attribute_of(read_message(raw)) for raw in some_bytes(fields, 2)])
    return XAttrChange(read_maybe_text(maybe_bytes(fields, 1)), attributes), end


def _attribute_of(fields: Fields) -> XAttr:
    refuse_others(fields, (1, 2, 3))
    name = maybe_bytes(fields, 2)
    if name is None:
        raise BrokenOp("an extended attribute has no name")
    return XAttr(to_enum(XAttrNamespace, one_int(fields, 1)), read_text(name), maybe_bytes(fields, 3))


def _write_change(change: XAttrChange) -> bytes:
    attributes = [(2, write_message(_fields_of(one))) for one in change.attributes]
    return write_delimited([(1, write_maybe_text(change.path)), *attributes])


def _fields_of(one: XAttr) -> list[tuple[int, int | bytes | None]]:
    return [(1, int(one.namespace)), (2, write_text(one.name)), (3, one.value)]


def _change_to_json(change: XAttrChange) -> object:
    return {"path": change.path, "attributes": _list_to_json(change.attributes)}


_NONE = b"\0"  # an empty message: most files have no attributes


def _read_list(data: bytes, at: int) -> tuple[tuple[XAttr, ...], int]:
    if data[at] == _NONE[0]:
        return (), at + 1
    change, end = _read_change(data, at)
    if change.path is not None:
        raise BrokenOp("the extended attributes of a new file include a path")
    return change.attributes, end


def _write_list(attributes: tuple[XAttr, ...]) -> bytes:
    return _write_change(XAttrChange(None, attributes)) if attributes else _NONE


def _list_to_json(attributes: tuple[XAttr, ...]) -> object:
    return [_to_json(one) for one in attributes]


def _to_json(one: XAttr) -> object:
    value = {} if one.value is None else {"value": one.value.hex()}
    return {"namespace": one.namespace.name, "name": one.name, **value}


XAttrs = Annotated[tuple[XAttr, ...], FieldType(_read_list, _write_list, _list_to_json, empty=_NONE)]
XAttrMessage = Annotated[XAttrChange, FieldType(_read_change, _write_change, _change_to_json)]
