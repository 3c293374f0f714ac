"""What a NameNode, or whoever reaches a journal daemon's port, sends: frames, calls and their messages; and a URI."""

from __future__ import annotations

from google.protobuf.message import Message

from qjm_compat.errors import BadRequest
from qjm_compat.hadoop.client import qjournal_uri
from qjm_compat.hadoop.errors import BadRpcFrame, BadRpcMessage, NoSuchMethod, NoSuchProtocol, VersionMismatch
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import (
    FINAL,
    PROTOCOL_BUFFERS,
    PROTOCOL_VERSION,
    call_in,
    method_of,
)
from qjm_compat.hadoop.wire.methods import METHODS, method_named
from qjm_compat.hadoop.wire.rpc_framing import RpcFrameReader, frame_of

from .target import Target

FRAME_BYTES_MAX = 4096
LENGTH_BYTES = 4


def targets() -> list[Target]:
    return [
        Target("hadoop_frames", frames, (BadRpcFrame,), lambda: [b"\x05" + b"".join(_calls()[:2])]),
        Target(
            "hadoop_call",
            call,
            (BadRpcFrame, BadRpcMessage, BadRequest, NoSuchMethod, NoSuchProtocol, VersionMismatch),
            lambda: [whole[LENGTH_BYTES:] for whole in _calls()],
        ),
        Target(
            "qjournal_uri",
            lambda data: qjournal_uri.parse(data.decode("utf-8", "replace")),
            (BadRequest,),
            lambda: [b"qjournal://h1:8485;[::1]:8485/ns1"],
        ),
    ]


def frames(data: bytes) -> None:
    """Received in pieces as the first byte says; what comes out is the same however it was cut."""
    if not data:
        return
    piece = 1 + data[0] % 64
    whole = list(RpcFrameReader(FRAME_BYTES_MAX).feed(data[1:]))
    cut = RpcFrameReader(FRAME_BYTES_MAX)
    found = [
        frame
        for at in range(1, len(data), piece)
        for frame in cut.feed(data[at : min(at + piece, len(data))])
    ]
    assert found == whole
    assert cut.buffered_bytes <= FRAME_BYTES_MAX + LENGTH_BYTES


def call(data: bytes) -> None:
    """A frame as the server takes it, up to the message of the method, and ours that is made of it."""
    found = call_in(data)
    if not found.is_call:
        return
    protocol, name, message = method_of(found)
    method = method_named(protocol, name)
    method.request_of(method.parse(message), b"c")


def _calls() -> list[bytes]:
    """Every method there is, with all fields of its message."""
    return [_call_of(protocol, name) for protocol, methods in METHODS.items() for name in methods]


def _call_of(protocol: str, name: str) -> bytes:
    header = pb.RequestHeader(
        rpc_kind=PROTOCOL_BUFFERS, rpc_op=FINAL, call_id=7, client_id=bytes(16), retry_count=0
    )
    named = pb.CallHeader(method=name, protocol=protocol, version=PROTOCOL_VERSION)
    message = method_named(protocol, name).message()
    _fill(message)
    return frame_of((header.SerializeToString(), named.SerializeToString(), message.SerializeToString()))


def _fill(message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and not field.is_repeated:
            _fill(getattr(message, field.name))
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, "ns1")
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, b"edits")
        elif not field.is_repeated:
            setattr(message, field.name, 1)
