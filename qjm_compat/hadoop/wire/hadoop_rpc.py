"""Encodes and decodes the calls and replies of Hadoop's IPC."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from ...errors import JournalError
from ..errors import BadRpcFrame, NoSuchMethod, NoSuchProtocol, VersionMismatch
from . import hadoop_pb2 as pb
from .rpc_framing import IPC_VERSION, frame_of, parts_of

CONTEXT_CALL, PING_CALL, SASL_CALL = -3, -4, -33
"""Reserved call ids, used by frames that are not calls."""

PROTOCOL_BUFFERS, FINAL = 2, 0
SUCCESS, ERROR, FATAL = 0, 1, 2

JOURNAL_PROTOCOL = "org.apache.hadoop.hdfs.qjournal.protocol.QJournalProtocol"
INTER_PROTOCOL = "org.apache.hadoop.hdfs.qjournal.protocol.InterQJournalProtocol"
PROTOCOL_VERSION = 1

DETAIL_APPLICATION, DETAIL_UNKNOWN = 1, 10
DETAIL_INVALID_HEADER, DETAIL_DESERIALIZING, DETAIL_VERSION = 12, 13, 14
_DETAILS: dict[type[Exception], int] = {NoSuchMethod: 2, NoSuchProtocol: 3, VersionMismatch: 6}

CLIENT_ID_BYTES_MAX = 64
"""Maximum length of a client id; Hadoop's client ids have 16 bytes."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that made a call, the id of the call, and its retry count."""

    call_id: int
    client_id: bytes
    retry_count: int


@dataclass(frozen=True, slots=True)
class Call:
    """A received frame: a call with its header and message or, if its id is negative, a frame that is not a call."""

    caller: Caller
    parts: tuple[bytes, ...]

    @property
    def is_call(self) -> bool:
        return self.caller.call_id >= 0


def parse(message: Message, data: bytes) -> None:
    """Decodes a message. Raises DecodeError, also if a required field is missing."""
    message.ParseFromString(data)
    if not message.IsInitialized():
        raise DecodeError(f"Message missing required fields: a {type(message).__name__} is incomplete")


def call_in(frame: bytes | memoryview) -> Call:
    """Decodes a call. Raises BadRpcFrame."""
    parts = parts_of(frame)
    if not parts:
        raise BadRpcFrame("the frame has no header")
    header = pb.RequestHeader()
    try:
        parse(header, parts[0])
    except DecodeError as error:
        raise BadRpcFrame(f"the header of a call cannot be read: {error}") from error
    if header.rpc_kind != PROTOCOL_BUFFERS or not header.HasField("rpc_op") or header.rpc_op != FINAL:
        raise BadRpcFrame("the header of a call is of an unsupported kind")
    if len(header.client_id) > CLIENT_ID_BYTES_MAX:
        raise BadRpcFrame("the client id is too long: Hadoop's client ids have 16 bytes")
    return Call(Caller(header.call_id, header.client_id, header.retry_count), tuple(parts[1:]))


def method_of(call: Call) -> tuple[str, str, bytes]:
    """Decodes the protocol, method and message of a call. Raises BadRpcFrame, VersionMismatch."""
    if len(call.parts) != 2:
        raise BadRpcFrame(
            f"a call must have two parts after its first header (a header and a message), not {len(call.parts)}"
        )
    header = pb.CallHeader()
    try:
        parse(header, call.parts[0])
    except DecodeError as error:
        raise BadRpcFrame(f"the header of a method cannot be read: {error}") from error
    if header.version != PROTOCOL_VERSION:
        raise VersionMismatch(
            f"Protocol {header.protocol} version mismatch. (client = {header.version}, server = {PROTOCOL_VERSION})"
        )
    return header.protocol, header.method, call.parts[1]


def success(caller: Caller, message: Message) -> bytes:
    """Encodes a reply."""
    return frame_of((_header(caller, SUCCESS).SerializeToString(), message.SerializeToString()))


def failure(caller: Caller, error: Exception) -> bytes:
    """Encodes an error, with its Hadoop exception class."""
    header = _header(caller, ERROR)
    header.exception_class = error.java_class if isinstance(error, JournalError) else "java.io.IOException"
    header.error_message, header.own_class = str(error), type(error).__name__
    header.error_detail = _DETAILS.get(type(error), DETAIL_APPLICATION)
    return frame_of((header.SerializeToString(),))


def fatal(error: str, detail: int) -> bytes:
    """Encodes a fatal error, which is the last frame of a connection."""
    header = pb.ResponseHeader(
        call_id=0xFFFFFFFF,
        status=FATAL,
        ipc_version=IPC_VERSION,
        exception_class="org.apache.hadoop.ipc.RpcServerException",
        error_message=error,
        error_detail=detail,
    )
    return frame_of((header.SerializeToString(),))


def sasl_not_needed() -> bytes:
    """Encodes the reply to a client that wants to negotiate authentication: the client is to continue without
    negotiation."""
    header = pb.ResponseHeader(
        call_id=SASL_CALL & 0xFFFFFFFF, status=SUCCESS, ipc_version=IPC_VERSION, client_id=b"", retry_count=-1
    )
    return frame_of((header.SerializeToString(), pb.Sasl(state=0).SerializeToString()))


def old_version_refusal(version: int) -> bytes:
    """Encodes the refusal for clients older than version 9, in their format: call id, status, and two strings."""
    texts = (
        "org.apache.hadoop.ipc.RPC$VersionMismatch",
        f"Server IPC version {IPC_VERSION} cannot communicate with client version {version}",
    )
    body = b"".join(len(text).to_bytes(4, "big") + text.encode() for text in texts)
    return b"\xff\xff\xff\xff" * 2 + body


def _header(caller: Caller, status: int) -> pb.ResponseHeader:
    return pb.ResponseHeader(
        call_id=caller.call_id & 0xFFFFFFFF,
        status=status,
        ipc_version=IPC_VERSION,
        client_id=caller.client_id,
        retry_count=caller.retry_count,
    )
