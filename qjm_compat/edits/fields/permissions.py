"""Permissions and access control lists of files.

Ops that create a file encode each entry of the list as one byte, followed by the name if the entry has one; SET_ACL
encodes the list as a message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Annotated

from ..errors import BrokenOp
from .field_types import STRING, FieldType, Mode, Text, array, record, to_enum
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

ENTRIES_MAX = 64 * 1024
"""Maximum number of entries in one list; Hadoop itself accepts 32 per scope."""

PERMISSIONS_CACHED_MAX = 1024
"""Maximum number of cached encodings of owner, group and mode. Most ops use one of a few combinations."""

_HAS_NAME = 0x40
_UNUSED = 0x80


@dataclass(frozen=True, slots=True)
class Permission:
    """A file's owner, group and mode."""

    user: Text
    group: Text
    mode: Mode


class AclScope(IntEnum):
    """The target of an entry: the file itself, or files created in a directory."""

    ACCESS = 0
    DEFAULT = 1


class AclType(IntEnum):
    """The kind of principal to which an entry applies."""

    USER = 0
    GROUP = 1
    MASK = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One entry of an access control list. Without a name, it applies to the file's own user or group."""

    scope: AclScope
    type: AclType
    permissions: int
    """The sum of 1 (execute), 2 (write) and 4 (read)."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AclChange:
    """A file's new access control list."""

    path: str
    entries: tuple[AclEntry, ...]


def permissions_text(permissions: int) -> str:
    """Formats permissions in the notation of `ls`, such as r-x."""
    return "".join([letter if permissions & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1))])


_PERMISSION = record(Permission)


@lru_cache(PERMISSIONS_CACHED_MAX)
def _encoded(user: str, group: str, mode: int) -> bytes:
    return _PERMISSION.write(Permission(user, group, mode))


def _write_permission(permission: Permission) -> bytes:
    return _encoded(permission.user, permission.group, permission.mode)


def _checked(permissions: int) -> int:
    if not 0 <= permissions <= 7:
        raise BrokenOp(f"{permissions} is not a valid set of permissions")
    return permissions


def _read_entry(data: bytes, at: int) -> tuple[AclEntry, int]:
    byte = data[at]
    if byte & _UNUSED:
        raise BrokenOp(f"an entry of an access control list begins with {byte:#x}")
    name, at = STRING.read(data, at + 1) if byte & _HAS_NAME else (None, at + 1)
    return AclEntry(AclScope(byte >> 5 & 1), AclType(byte >> 3 & 3), byte & 7, name), at


def _write_entry(entry: AclEntry) -> bytes:
    byte = entry.scope << 5 | entry.type << 3 | _checked(entry.permissions)
    if entry.name is None:
        return bytes([byte])
    return bytes([byte | _HAS_NAME]) + STRING.write(entry.name)


def _entry_to_json(entry: AclEntry) -> object:
    name = {} if entry.name is None else {"name": entry.name}
    permissions = permissions_text(entry.permissions)
    return {"scope": entry.scope.name, "type": entry.type.name, **name, "permissions": permissions}


def _read_change(data: bytes, at: int) -> tuple[AclChange, int]:
    fields, end = read_delimited(data, at)
    refuse_others(fields, (1, 2))
    path = maybe_bytes(fields, 1)
    if path is None:
        raise BrokenOp("an access control list has no path")
    entries = tuple([_entry_of(read_message(raw)) for raw in some_bytes(fields, 2)])
    return AclChange(read_text(path), entries), end


def _entry_of(fields: Fields) -> AclEntry:
    refuse_others(fields, (1, 2, 3, 4))
    about, scope = to_enum(AclType, one_int(fields, 1)), to_enum(AclScope, one_int(fields, 2))
    return AclEntry(scope, about, _checked(one_int(fields, 3)), read_maybe_text(maybe_bytes(fields, 4)))


def _write_change(change: AclChange) -> bytes:
    entries = [(2, write_message(_fields_of(entry))) for entry in change.entries]
    return write_delimited([(1, write_text(change.path)), *entries])


def _fields_of(entry: AclEntry) -> list[tuple[int, int | bytes | None]]:
    permissions, name = _checked(entry.permissions), write_maybe_text(entry.name)
    return [(1, int(entry.type)), (2, int(entry.scope)), (3, permissions), (4, name)]


def _change_to_json(change: AclChange) -> object:
    return {"path": change.path, "entries": [_entry_to_json(entry) for entry in change.entries]}


Permissions = Annotated[Permission, replace(_PERMISSION, write=_write_permission)]
Acl = Annotated[
    tuple[AclEntry, ...], array(FieldType(_read_entry, _write_entry, _entry_to_json), ENTRIES_MAX)
]
AclMessage = Annotated[AclChange, FieldType(_read_change, _write_change, _change_to_json)]
