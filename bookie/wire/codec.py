"""Messages to bytes and back: the only module that touches the generated code.

Every message is sealed (`sealing`), and encoded in parts. Decoding never trusts: columns that do not fit together, a
wrong checksum or an unknown status raise BadMessage, and nothing of the message is used.
"""

from __future__ import annotations

from typing import TypeVar, cast

from google.protobuf.message import DecodeError, Message

from . import bookie_pb2 as pb
from .columns import Columns
from .messages import (
    HOLDINGS_MAX,
    NO_CREDENTIAL,
    NO_ENTRY,
    PROOF_BYTES,
    REPORT_BYTES_MAX,
    VERIFIER_BYTES,
    Ack,
    AppendReply,
    AppendRequest,
    Credential,
    EntryRange,
    Frame,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    ReadReply,
    ReadRequest,
    Status,
)
from .rpc import MESSAGE_BYTES_MAX
from .sealing import BadMessage, Sealed, Unsealed, sealed

FRAMES_MAX = 1024
"""No client sends more of them in one message; a bookie's other clients wait while it takes a message apart."""

APPEND_HEADER_BYTES_MAX = 512 * 1024
"""So many frames need half of it. A frame may be a byte or two, and each costs memory once it is parsed."""

LAC_DIGEST_BYTES_MAX = 64
"""No digest is wider; bounds what a bookie keeps for each ledger."""


M = TypeVar("M", bound=Message)

Body = bytes | bytearray

_STATUS_TO_PB: dict[Status, pb.Status] = {
    status: cast("pb.Status", pb.Status.Value(status.name)) for status in Status
}
_STATUS_FROM_PB = {int(number): status for status, number in _STATUS_TO_PB.items()}

_ACTION_TO_PB: dict[MaintenanceAction, pb.MaintenanceAction] = {
    action: cast("pb.MaintenanceAction", pb.MaintenanceAction.Value(action.name))
    for action in MaintenanceAction
}
_ACTION_FROM_PB = {int(number): action for action, number in _ACTION_TO_PB.items()}


def _parse(kind: type[M], data: Body) -> M:
    message, body = _parse_with_columns(kind, data)
    body.end()
    return message


def _parse_with_columns(
    kind: type[M], data: Body, header_bytes_max: int = MESSAGE_BYTES_MAX
) -> tuple[M, Unsealed]:
    body = Unsealed(data)
    if len(body.header) > header_bytes_max:
        raise BadMessage(f"a header of {len(body.header)} bytes; the limit is {header_bytes_max}")
    try:
        return kind.FromString(body.header), body  # type: ignore[arg-type]  # takes any buffer
    except DecodeError as error:
        raise BadMessage(str(error)) from error


def _shape_of(columns: Columns) -> pb.Columns:
    return pb.Columns(
        entries=len(columns), digests_bytes=len(columns.digests), payload_bytes=len(columns.payload)
    )


def _columns_from(shape: pb.Columns, body: Unsealed) -> Columns:
    return body.columns(shape.entries, shape.digests_bytes, shape.payload_bytes)


def _lac_to(statement: LacStatement | None) -> pb.LastAddConfirmed | None:
    if statement is None:
        return None
    return pb.LastAddConfirmed(
        last_entry=statement.last_entry, length_bytes=statement.length_bytes, digest=statement.digest
    )


def _lac_from(message: pb.LastAddConfirmed) -> LacStatement:
    if message.last_entry < NO_ENTRY or message.length_bytes < 0:
        raise BadMessage(f"no ledger ends at entry {message.last_entry} with {message.length_bytes} bytes")
    if len(message.digest) > LAC_DIGEST_BYTES_MAX:
        raise BadMessage(f"a last-add-confirmed with a digest of {len(message.digest)} bytes")
    return LacStatement(message.last_entry, message.length_bytes, message.digest)


def _credential_to(credential: Credential) -> pb.Credential | None:
    if credential == NO_CREDENTIAL:
        return None
    return pb.Credential(verifier=credential.verifier, proof=credential.proof)


def _credential_from(message: pb.Frame | pb.ReadRequest | pb.LastAddConfirmedRequest) -> Credential:
    if not message.HasField("credential"):
        return NO_CREDENTIAL
    credential = Credential(message.credential.verifier, message.credential.proof)
    if len(credential.verifier) != VERIFIER_BYTES or len(credential.proof) != PROOF_BYTES:
        raise BadMessage(f"a credential of {len(credential.verifier)} and {len(credential.proof)} bytes")
    return credential


def _status_from(number: int) -> Status:
    try:
        return _STATUS_FROM_PB[number]
    except KeyError:
        raise BadMessage(f"unknown status {number}") from None


def encode_append_request(request: AppendRequest) -> Sealed:
    message = pb.AppendRequest(incarnation=request.incarnation, first_sequence=request.first_sequence)
    for frame in request.frames:
        message.frames.add(
            ledger_id=frame.ledger_id,
            recovery=frame.recovery,
            last_add_confirmed=_lac_to(frame.last_add_confirmed),
            columns=_shape_of(frame.columns),
            credential=_credential_to(frame.credential),
            deferred_sync=frame.deferred_sync,
        )
    return sealed(message, (frame.columns for frame in request.frames))


def decode_append_request(data: Body) -> AppendRequest:
    message, body = _parse_with_columns(pb.AppendRequest, data, APPEND_HEADER_BYTES_MAX)
    if len(message.frames) > FRAMES_MAX:
        raise BadMessage(f"{len(message.frames)} frames in one message; the limit is {FRAMES_MAX}")
    frames = tuple([_frame_from(frame, body) for frame in message.frames])
    body.end()
    return AppendRequest(message.incarnation, message.first_sequence, frames)


def _frame_from(message: pb.Frame, body: Unsealed) -> Frame:
    columns = _columns_from(message.columns, body)
    if message.ledger_id < 0:
        raise BadMessage(f"{message.ledger_id} is not a ledger id")
    lac = _lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
    credential = _credential_from(message)
    return Frame(message.ledger_id, columns, lac, message.recovery, credential, message.deferred_sync)


def encode_append_reply(reply: AppendReply) -> Sealed:
    message = pb.AppendReply()
    for ack in reply.acks:
        message.acks.add(sequence=ack.sequence, status=_STATUS_TO_PB[ack.status], detail=ack.detail)
    return sealed(message)


def decode_append_reply(data: Body) -> AppendReply:
    message = _parse(pb.AppendReply, data)
    return AppendReply(tuple(Ack(a.sequence, _status_from(a.status), a.detail) for a in message.acks))


def encode_read_request(request: ReadRequest) -> Sealed:
    return sealed(
        pb.ReadRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            first_entry=request.first_entry,
            last_entry=request.last_entry,
            bytes_max=request.bytes_max,
            fence=request.fence,
            credential=_credential_to(request.credential),
        )
    )


def decode_read_request(data: Body) -> ReadRequest:
    m = _parse(pb.ReadRequest, data)
    return ReadRequest(
        m.incarnation, m.ledger_id, m.first_entry, m.last_entry, m.bytes_max, m.fence, _credential_from(m)
    )


def encode_read_reply(reply: ReadReply) -> Sealed:
    return sealed(
        pb.ReadReply(
            status=_STATUS_TO_PB[reply.status],
            detail=reply.detail,
            columns=_shape_of(reply.columns),
            covered_through=reply.covered_through,
            damaged=[
                pb.EntryRange(first_entry=r.first_entry, last_entry=r.last_entry) for r in reply.damaged
            ],
            last_add_confirmed=_lac_to(reply.last_add_confirmed),
        ),
        (reply.columns,),
    )


def decode_read_reply(data: Body) -> ReadReply:
    message, body = _parse_with_columns(pb.ReadReply, data)
    columns = _columns_from(message.columns, body)
    body.end()
    return ReadReply(
        status=_status_from(message.status),
        columns=columns,
        covered_through=message.covered_through,
        damaged=tuple(EntryRange(r.first_entry, r.last_entry) for r in message.damaged),
        last_add_confirmed=(
            _lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
        ),
        detail=message.detail,
    )


def encode_lac_request(request: LacRequest) -> Sealed:
    return sealed(
        pb.LastAddConfirmedRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            fence=request.fence,
            wait_beyond=request.wait_beyond,
            wait_ms=request.wait_ms,
            credential=_credential_to(request.credential),
        )
    )


def decode_lac_request(data: Body) -> LacRequest:
    m = _parse(pb.LastAddConfirmedRequest, data)
    return LacRequest(m.incarnation, m.ledger_id, m.fence, m.wait_beyond, m.wait_ms, _credential_from(m))


def encode_lac_reply(reply: LacReply) -> Sealed:
    return sealed(
        pb.LastAddConfirmedReply(
            status=_STATUS_TO_PB[reply.status],
            detail=reply.detail,
            last_add_confirmed=_lac_to(reply.last_add_confirmed),
        )
    )


def decode_lac_reply(data: Body) -> LacReply:
    message = _parse(pb.LastAddConfirmedReply, data)
    lac = _lac_from(message.last_add_confirmed) if message.HasField("last_add_confirmed") else None
    return LacReply(_status_from(message.status), lac, message.detail)


def encode_holdings_request(request: HoldingsRequest) -> Sealed:
    return sealed(
        pb.HoldingsRequest(
            incarnation=request.incarnation,
            ledger_id=request.ledger_id,
            first_entry=request.first_entry,
            last_entry=request.last_entry,
            step_bytes=request.step_bytes,
        )
    )


def decode_holdings_request(data: Body) -> HoldingsRequest:
    m = _parse(pb.HoldingsRequest, data)
    return HoldingsRequest(m.incarnation, m.ledger_id, m.first_entry, m.last_entry, m.step_bytes)


def encode_holdings_reply(reply: HoldingsReply) -> Sealed:
    return sealed(
        pb.HoldingsReply(
            status=_STATUS_TO_PB[reply.status],
            detail=reply.detail,
            covered_through=reply.covered_through,
            first_entries=[held.first_entry for held in reply.holdings],
            last_entries=[held.last_entry for held in reply.holdings],
            entries=[held.entries for held in reply.holdings],
            payload_bytes=[held.payload_bytes for held in reply.holdings],
        )
    )


def decode_holdings_reply(data: Body) -> HoldingsReply:
    m = _parse(pb.HoldingsReply, data)
    columns = m.first_entries, m.last_entries, m.entries, m.payload_bytes
    if len({len(column) for column in columns}) != 1 or len(m.entries) > HOLDINGS_MAX:
        raise BadMessage(f"holdings in columns of {[len(column) for column in columns]}")
    holdings = tuple(map(Holding, *columns))
    if any(not 0 <= first <= last for first, last, _, _ in holdings):
        raise BadMessage("holdings that end before they begin")
    return HoldingsReply(_status_from(m.status), holdings, m.covered_through, m.detail)


def encode_info_request(_: None) -> Sealed:
    return sealed(pb.InfoRequest())


def decode_info_request(data: Body) -> None:
    _parse(pb.InfoRequest, data)


def encode_info_reply(reply: InfoReply) -> Sealed:
    return sealed(
        pb.InfoReply(
            bookie_id=reply.bookie_id,
            incarnation=reply.incarnation,
            cluster_id=reply.cluster_id,
            version=reply.version,
            disk_bytes_total=reply.disk_bytes_total,
            disk_bytes_free=reply.disk_bytes_free,
            entries_added=reply.entries_added,
            bytes_added=reply.bytes_added,
            syncs=reply.syncs,
            read_only=reply.read_only,
        )
    )


def decode_info_reply(data: Body) -> InfoReply:
    m = _parse(pb.InfoReply, data)
    return InfoReply(
        m.bookie_id,
        m.incarnation,
        m.cluster_id,
        m.version,
        m.disk_bytes_total,
        m.disk_bytes_free,
        m.entries_added,
        m.bytes_added,
        m.syncs,
        m.read_only,
    )


def encode_maintain_request(request: MaintainRequest) -> Sealed:
    return sealed(pb.MaintainRequest(action=_ACTION_TO_PB[request.action], adopt=request.adopt))


def decode_maintain_request(data: Body) -> MaintainRequest:
    message = _parse(pb.MaintainRequest, data)
    action = _ACTION_FROM_PB.get(message.action)
    if action is None:
        raise BadMessage(f"unknown act of maintenance {message.action}")
    return MaintainRequest(action, message.adopt)


def encode_maintain_reply(reply: MaintainReply) -> Sealed:
    return sealed(
        pb.MaintainReply(status=_STATUS_TO_PB[reply.status], detail=reply.detail, report=reply.report)
    )


def decode_maintain_reply(data: Body) -> MaintainReply:
    message = _parse(pb.MaintainReply, data)
    if (size := len(message.report.encode())) > REPORT_BYTES_MAX:
        raise BadMessage(f"a report of {size} bytes; the limit is {REPORT_BYTES_MAX}")
    return MaintainReply(_status_from(message.status), message.detail, message.report)
