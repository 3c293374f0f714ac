"""Ops with any values that a NameNode could have written, for every op and layout."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from hypothesis import strategies as st

from qjm_compat.edits import NEWEST_LAYOUT, OLDEST_LAYOUT, OPS, EditOp
from qjm_compat.edits.fields import field_types
from qjm_compat.edits.fields.blocks import Block, Blocks, CompactBlocks
from qjm_compat.edits.fields.field_types import FieldType
from qjm_compat.edits.fields.permissions import (
    Acl,
    AclChange,
    AclEntry,
    AclMessage,
    AclScope,
    AclType,
    Permission,
    Permissions,
)
from qjm_compat.edits.fields.xattrs import XAttr, XAttrChange, XAttrMessage, XAttrNamespace, XAttrs
from qjm_compat.edits.op import layout_of
from qjm_compat.edits.ops.attributes import StorageType, TypeOfStorage
from qjm_compat.edits.ops.cache import CacheDirective, CachePool, Directive, Pool
from qjm_compat.edits.ops.erasure_coding import ErasureCodingPolicy, ExtraOption, Policy
from qjm_compat.edits.ops.namespace import RenameOption, RenameOptions, Sources
from qjm_compat.edits.ops.tokens import DelegationKey, DelegationToken, MasterKey, Token

LAYOUTS = range(OLDEST_LAYOUT, NEWEST_LAYOUT - 1, -1)

numbers_8 = st.integers(-(1 << 7), (1 << 7) - 1)
numbers_16 = st.integers(-(1 << 15), (1 << 15) - 1)
numbers_32 = st.integers(-(1 << 31), (1 << 31) - 1)
numbers_64 = st.integers(-(1 << 63), (1 << 63) - 1)
java_strings = st.text(st.characters(), max_size=40)  # all characters, also surrogates that stand alone
texts = st.text(max_size=40)
names = st.none() | texts
client_ids = st.binary(min_size=16, max_size=16) | st.just(b"")


def tuples_of(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(some, max_size=4).map(tuple)


blocks = tuples_of(st.builds(Block, numbers_64, numbers_64, numbers_64))
acl_entries = [
    st.builds(
        AclEntry, st.sampled_from(AclScope), st.sampled_from(AclType), st.integers(0, 7), st.none() | name
    )
    for name in (java_strings, texts)
]
attributes = tuples_of(
    st.builds(XAttr, st.sampled_from(XAttrNamespace), texts, st.none() | st.binary(max_size=300))
)
tokens = st.builds(
    DelegationToken, st.just(0), texts, texts, texts, numbers_64, numbers_64, numbers_32, numbers_32
)
policies = st.builds(
    ErasureCodingPolicy,
    java_strings,
    numbers_32,
    numbers_32,
    numbers_32,
    tuples_of(st.builds(ExtraOption, java_strings, java_strings)),
)


def _maybe(some: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | some


def _kind(annotated: object) -> FieldType[Any]:
    found = get_args(annotated)[1]
    assert isinstance(found, FieldType)
    return found


_BY_KIND = {
    id(kind): strategy
    for kind, strategy in (
        (_kind(field_types.I8), numbers_8),
        (_kind(field_types.I16), numbers_16),
        (_kind(field_types.I32), numbers_32),
        (_kind(field_types.I64), numbers_64),
        (_kind(field_types.Mode), numbers_16),
        (_kind(field_types.Flag), st.booleans()),
        (_kind(field_types.String), java_strings),
        (_kind(field_types.ShortBytes), client_ids),
        (_kind(Blocks), blocks),
        (_kind(CompactBlocks), blocks),
        (_kind(Permissions), st.builds(Permission, texts, texts, numbers_16)),
        (_kind(Acl), tuples_of(acl_entries[0])),
        (_kind(AclMessage), st.builds(AclChange, texts, tuples_of(acl_entries[1]))),
        (_kind(XAttrs), attributes),
        (_kind(XAttrMessage), st.builds(XAttrChange, names, attributes)),
        (_kind(Token), tokens),
        (
            _kind(Directive),
            st.builds(
                CacheDirective,
                numbers_64,
                _maybe(java_strings),
                _maybe(numbers_16),
                _maybe(java_strings),
                _maybe(numbers_64),
            ),
        ),
        (
            _kind(Pool),
            st.builds(
                CachePool,
                java_strings,
                _maybe(java_strings),
                _maybe(java_strings),
                _maybe(numbers_16),
                _maybe(numbers_64),
                _maybe(numbers_64),
                _maybe(numbers_16),
            ),
        ),
        (_kind(Policy), policies),
        (_kind(TypeOfStorage), st.sampled_from(StorageType)),
        (_kind(Sources), tuples_of(java_strings)),
        (_kind(RenameOptions), tuples_of(st.sampled_from(RenameOption))),
        (_kind(MasterKey), st.builds(DelegationKey, numbers_32, numbers_64, _maybe(st.binary(max_size=40)))),
    )
}


def ops_of(cls: type[EditOp], layout_version: int) -> st.SearchStrategy[EditOp]:
    """Ops of one code, with all values that this layout can say."""
    layout = layout_of(cls.opcode, layout_version)
    fields = {name: _BY_KIND[id(kind)] for name, kind in layout.fields}
    return st.builds(cls, txid=numbers_64, **fields)


def any_op(layout_version: int) -> st.SearchStrategy[EditOp]:
    return st.sampled_from(sorted(OPS)).flatmap(lambda code: ops_of(OPS[code], layout_version))


def numbered(ops: list[EditOp], first_txid: int) -> list[EditOp]:
    """The same ops as consecutive transactions."""
    return [dataclasses.replace(op, txid=txid) for txid, op in enumerate(ops, first_txid)]
