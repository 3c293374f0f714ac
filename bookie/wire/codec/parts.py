"""Encodes and decodes the parts that messages have in common: headers and columns, LAC statements, credentials,
statuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.message import DecodeError, Message

from metadata.records.ledger_record import IDENTITY_BYTES

from .. import bookie_pb2 as pb
from ..attachments import BadMessage, Sealed, Unsealed, sealed, unsealed_alone
from ..columnar_entries import Columns
from ..messages import (
    NO_CREDENTIAL,
    NO_ENTRY,
    PROOF_BYTES,
    VERIFIER_BYTES,
    Credential,
    LacStatement,
    MaintenanceAction,
    Status,
    new_lac,
)

LAC_DIGEST_BYTES_MAX = 64
"""Maximum size of a digest; limits the memory that a bookie keeps for each ledger."""

M = TypeVar("M", bound=Message)
V = TypeVar("V")

Body = bytes | bytearray

STATUS_TO_PB: dict[Status, pb.Status] = {
    status: cast("pb.Status", pb.Status.Value(status.name)) for status in Status
}

STATUS_FROM_PB = {int(number): status for status, number in STATUS_TO_PB.items()}


def parse(kind: type[M], data: Body) -> M:
    return parsed(kind, unsealed_alone(data))


def parse_with_columns(kind: type[M], data: Body) -> tuple[M, Unsealed]:
    body = Unsealed(data)
    return parsed(kind, body.header), body


def parsed(kind: type[M], header: bytes | bytearray | memoryview) -> M:
    try:
        return kind.FromString(header)  # type: ignore[arg-type]  # takes any buffer
    except DecodeError as error:
        raise BadMessage(str(error)) from error


def shape_of(columns: Columns) -> pb.Columns:
    return pb.Columns(
        entries=len(columns), digests_bytes=len(columns.digests), payload_bytes=len(columns.payload)
    )


def columns_from(shape: pb.Columns, body: Unsealed) -> Columns:
    return body.columns(shape.entries, shape.digests_bytes, shape.payload_bytes)


def lac_to(statement: LacStatement | None) -> pb.LastAddConfirmed | None:
    if statement is None:
        return None
    return pb.LastAddConfirmed(
        last_entry=statement.last_entry, length_bytes=statement.length_bytes, digest=statement.digest
    )


def lac_from(message: pb.LastAddConfirmed) -> LacStatement:
    return checked_lac(message.last_entry, message.length_bytes, message.digest)


def checked_lac(last_entry: int, length_bytes: int, digest: bytes) -> LacStatement:
    if last_entry < NO_ENTRY or length_bytes < 0:
        raise BadMessage(f"an invalid last-add-confirmed: entry {last_entry}, {length_bytes} bytes")
    if len(digest) > LAC_DIGEST_BYTES_MAX:
        raise BadMessage(f"a last-add-confirmed with a digest of {len(digest)} bytes")
    return new_lac((last_entry, length_bytes, digest))


def credential_to(credential: Credential) -> pb.Credential | None:
    if credential == NO_CREDENTIAL:
        return None
    return pb.Credential(verifier=credential.verifier, proof=credential.proof)


def credential_from(
    message: pb.ReadRequest | pb.ScanRequest | pb.LastAddConfirmedRequest,
) -> Credential:
    if not message.HasField("credential"):
        return NO_CREDENTIAL
    credential = Credential(message.credential.verifier, message.credential.proof)
    if len(credential.verifier) != VERIFIER_BYTES or len(credential.proof) != PROOF_BYTES:
        raise BadMessage(
            f"a verifier of {len(credential.verifier)} bytes and a proof of {len(credential.proof)} bytes"
        )
    return credential


def identity_from(
    message: pb.ReadRequest | pb.ScanRequest | pb.LastAddConfirmedRequest | pb.HoldingsRequest,
) -> bytes:
    identity = message.identity
    if len(identity) not in (0, IDENTITY_BYTES):
        raise BadMessage(f"an identity of {len(identity)} bytes, which no ledger has")
    return identity


def status_from(number: int) -> Status:
    try:
        return STATUS_FROM_PB[number]
    except KeyError:
        raise BadMessage(f"unknown status {number}") from None


_ACTION_TO_PB: dict[MaintenanceAction, pb.MaintenanceAction] = {
    action: cast("pb.MaintenanceAction", pb.MaintenanceAction.Value(action.name))
    for action in MaintenanceAction
}

_ACTION_FROM_PB = {int(number): action for action, number in _ACTION_TO_PB.items()}


def _action_from(message: pb.MaintainRequest) -> MaintenanceAction:
    action = _ACTION_FROM_PB.get(message.action)
    if action is None:
        raise BadMessage(f"unknown maintenance action {message.action}")
    return action


_TO: dict[str, Callable[[Any], Any]] = {
    "action": _ACTION_TO_PB.__getitem__,
    "credential": credential_to,
    "status": STATUS_TO_PB.__getitem__,
}
"""Encoders, by field name, for fields that the protobuf message represents differently."""

_FROM: dict[str, Callable[[Any], Any]] = {
    "action": _action_from,
    "credential": credential_from,
    "identity": identity_from,
    "status": lambda message: status_from(message.status),
    "append_seconds_bounds": lambda message: tuple(message.append_seconds_bounds),
    "append_counts": lambda message: tuple(message.append_counts),
}
"""Decoders, by field name, for fields that must be checked, or that the protobuf message represents differently."""


class Codec(NamedTuple):
    """Encoder and decoder of one kind of message."""

    encode: Callable[[Any], Sealed]
    decode: Callable[[Body], Any]


def plain(kind: type[Message], of: type[V], check: Callable[[V], None] = lambda _: None) -> Codec:
    """Returns the codec for a protobuf message that has the same fields as this dataclass. The dataclass must have at
    least two fields.

    `check` raises BadMessage for a decoded message with impossible values.
    """
    names = [field.name for field in fields(of)]  # type: ignore[arg-type]
    values_of = attrgetter(*names)
    to = [(name, _TO[name]) for name in names if name in _TO]
    read = [(n, _FROM[name]) for n, name in enumerate(names) if name in _FROM]

    def encode(value: V) -> Sealed:
        given = dict(zip(names, values_of(value), strict=True))
        for name, written in to:
            given[name] = written(given[name])
        return sealed(kind(**given))

    def decode(data: Body) -> V:
        message = parse(kind, data)
        values = list(values_of(message))
        for n, from_message in read:
            values[n] = from_message(message)
        made = of(*values)
        check(made)
        return made

    return Codec(encode, decode)
