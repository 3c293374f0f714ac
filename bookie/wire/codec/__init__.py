"""Encodes and decodes messages: the only modules that use the generated protobuf code.

Every message has a checksum and attached columns (`attachments`), and is encoded as several buffers. Decoding never
trusts the sender: for inconsistent columns, a wrong checksum or an unknown status it raises BadMessage, and no part of
the message is used.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ..attachments import Sealed
from .appends import APPEND_HEADER_BYTES_MAX, APPENDS, FRAMES_MAX
from .parts import LAC_DIGEST_BYTES_MAX, Body, Codec
from .reads import READS
from .tools import BUCKETS_MAX, TOOLS

__all__ = [
    "APPEND_HEADER_BYTES_MAX",
    "BUCKETS_MAX",
    "FRAMES_MAX",
    "LAC_DIGEST_BYTES_MAX",
    "MESSAGES",
    "decode",
    "encode",
]

Message = TypeVar("Message")

MESSAGES: dict[type, Codec] = {**APPENDS, **READS, **TOOLS}
"""All kinds of messages."""


def encode(message: Any) -> Sealed:
    """Encodes a message of any kind in `MESSAGES`."""
    return MESSAGES[type(message)].encode(message)


def decode(kind: type[Message], data: Body) -> Message:
    """Decodes a message of this kind. Raises BadMessage."""
    message: Message = MESSAGES[kind].decode(data)
    return message
