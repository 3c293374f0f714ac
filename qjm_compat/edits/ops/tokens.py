"""Ops on delegation tokens and the master keys that sign them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..errors import BrokenOp
from ..fields.field_types import I64, NUMBER_8, FieldType, Text, VInt, VLong, record, take
from ..fields.java import read_vint, read_vlong, write_vint, write_vlong
from ..op import EditOp, edit_op

KEY_BYTES_MAX = 1024 * 1024
"""Maximum size of a key, as in Hadoop."""

_WITHHELD = -1


def _read_version(data: bytes, at: int) -> tuple[int, int]:
    version, end = NUMBER_8.read(data, at)
    if version != 0:
        raise BrokenOp(f"a token of version {version} is not supported: the only known version is 0")
    return version, end


TokenVersion = Annotated[int, FieldType(_read_version, NUMBER_8.write)]


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """The identity that a token delegates, and the time until which the token can be renewed."""

    version: TokenVersion
    owner: Text
    renewer: Text
    real_user: Text
    issued_ms: VLong
    renewable_until_ms: VLong
    sequence_number: VInt
    master_key_id: VInt


@dataclass(frozen=True, slots=True)
class DelegationKey:
    """A key that signs tokens; `key` is None if it is withheld."""

    key_id: int
    expires_ms: int
    key: bytes | None


def _read_key(data: bytes, at: int) -> tuple[DelegationKey, int]:
    key_id, at = read_vint(data, at)
    expires_ms, at = read_vlong(data, at)
    size, at = read_vint(data, at)
    if size == _WITHHELD:
        return DelegationKey(key_id, expires_ms, None), at
    if size > KEY_BYTES_MAX:
        raise BrokenOp(f"a key of {size} bytes is too large")
    key, at = take(data, at, size)
    return DelegationKey(key_id, expires_ms, key), at


def _write_key(value: DelegationKey) -> bytes:
    size = _WITHHELD if value.key is None else len(value.key)
    if size > KEY_BYTES_MAX:
        raise BrokenOp(f"a key of {size} bytes is too large")
    return write_vint(value.key_id) + write_vlong(value.expires_ms) + write_vint(size) + (value.key or b"")


def _key_to_json(value: DelegationKey) -> object:
    key = {} if value.key is None else {"key": value.key.hex()}
    return {"key_id": value.key_id, "expires_ms": value.expires_ms, **key}


Token = Annotated[DelegationToken, record(DelegationToken)]
MasterKey = Annotated[DelegationKey, FieldType(_read_key, _write_key, _key_to_json)]


@edit_op(18, "OP_GET_DELEGATION_TOKEN")
class GetDelegationToken(EditOp):
    """Issues a token."""

    token: Token
    expires_ms: I64


@edit_op(19, "OP_RENEW_DELEGATION_TOKEN")
class RenewDelegationToken(EditOp):
    token: Token
    expires_ms: I64


@edit_op(20, "OP_CANCEL_DELEGATION_TOKEN")
class CancelDelegationToken(EditOp):
    token: Token


@edit_op(21, "OP_UPDATE_MASTER_KEY")
class UpdateMasterKey(EditOp):
    """Adds a signing key."""

    key: MasterKey
