"""Base class and registry of ops: frozen dataclasses whose fields, in order, are the body.

    @edit_op(3, "OP_MKDIR")
    class Mkdir(EditOp):
        inode_id: I64
        path: String
        …
        attributes: XAttrs = since(-57, default=())

A field with `since` is written in that layout and in newer ones (whose numbers are smaller). In older layouts, the
field has its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, TypeVar, dataclass_transform

from .errors import BrokenOp, UnknownLayout, UnknownOp
from .fields.encoders import encoder_of
from .fields.field_types import I32, FieldType, ShortBytes, fields_of
from .op_frames import OLDEST_LAYOUT

NEWEST_LAYOUT = -67
"""The newest layout whose fields are known."""

NO_CALL = -2
"""The call id of an op that no client requested."""

_SINCE = "since"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOp:
    """One transaction of the edit log."""

    opcode: ClassVar[int]
    name: ClassVar[str]
    """Hadoop's name of the op, such as OP_MKDIR."""

    txid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedOp(EditOp):
    """An op that identifies the client call that requested it, in the last two fields of its body."""

    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


Op = TypeVar("Op", bound=EditOp)
V = TypeVar("V")

OPS: dict[int, type[EditOp]] = {}
"""All ops, by op code."""

OBSOLETE = {5: "OP_DATANODE_ADD", 6: "OP_DATANODE_REMOVE"}
"""Op codes that Hadoop dropped long before ops had a length; they have no defined body."""


def since(layout_version: int, *, default: V) -> V:
    """Declares a field that older layouts lack. (The declared return type is that of the field, as with dataclasses'
    `field`.)"""
    found: V = field(default=default, metadata={_SINCE: layout_version})
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(since, field))
def edit_op(opcode: int, name: str) -> Callable[[type[Op]], type[Op]]:
    """Registers a class as the op with this code."""

    def register(cls: type[Op]) -> type[Op]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.opcode, made.name = opcode, name
        assert opcode not in OPS
        OPS[opcode] = made
        return made

    return register


@dataclass(frozen=True, slots=True)
class OpLayout:
    """The fields of an op in one layout."""

    cls: type[EditOp]
    fields: tuple[tuple[str, FieldType[Any]], ...]
    absent: tuple[tuple[str, object], ...]
    """A (name, default) pair for each field that this layout lacks."""
    readers: tuple[tuple[str, Callable[[bytes, int], tuple[Any, int]]], ...]
    """A (name, decoder) pair for each field."""
    write: Callable[[EditOp], bytes]
    """Encodes the body of an op."""


@cache
def layout_of(opcode: int, layout_version: int) -> OpLayout:
    """Returns the fields of an op in a layout. Raises UnknownLayout, or UnknownOp for an unknown code."""
    if not NEWEST_LAYOUT <= layout_version <= OLDEST_LAYOUT:
        raise UnknownLayout(
            f"layout {layout_version} is not supported: only {OLDEST_LAYOUT} to {NEWEST_LAYOUT} are"
        )
    if opcode in OBSOLETE:
        raise UnknownOp(f"op code {opcode} ({OBSOLETE[opcode]}) was dropped before layout {OLDEST_LAYOUT}")
    if opcode not in OPS:
        raise UnknownOp(f"unknown op code {opcode}")
    cls = OPS[opcode]
    first = {one.name: one.metadata.get(_SINCE, OLDEST_LAYOUT) for one in dataclasses.fields(cls)}
    by_call = {one.name for one in dataclasses.fields(RetriedOp)}
    in_order = sorted(fields_of(cls), key=lambda one: one[0] in by_call)
    there = tuple([(name, kind) for name, kind in in_order if layout_version <= first[name]])
    absent = [(one.name, one.default) for one in dataclasses.fields(cls) if layout_version > first[one.name]]
    readers = tuple([(name, kind.read) for name, kind in there])
    return OpLayout(cls, there, tuple(absent), readers, encoder_of(there))


def check_absent(op: EditOp, layout: OpLayout, layout_version: int) -> None:
    """Raises BrokenOp if the op sets a field that this layout lacks."""
    for name, default in layout.absent:
        if getattr(op, name) != default:
            raise BrokenOp(
                f"layout {layout_version} has no {name}, but {op.name} sets it to {getattr(op, name)!r}"
            )
