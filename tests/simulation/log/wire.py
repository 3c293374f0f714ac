"""Every message as bytes: encoded, now and then damaged on its way, decoded.

Whatever is damaged must be refused: what arrives is what the other side decodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bookie.wire import (
    AppendReply,
    AppendRequest,
    BadMessage,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    codec,
)
from tests.simulation.engine.chance import Stream

T = TypeVar("T")

DAMAGED_MESSAGES = 0.01
"""A share of all messages."""


@dataclass(slots=True)
class Messages:
    """How many were damaged on their way, and how many of these refused."""

    damaged: int = 0
    refused: int = 0


class Wire:
    """One bookie's network. Every method gives what arrives, or raises BadMessage: the connection is broken."""

    def __init__(self, chance: Stream, messages: Messages) -> None:
        self._chance = chance
        self._messages = messages
        self.is_healed = False

    def append_request(self, sent: AppendRequest) -> AppendRequest:
        return self._carry(codec.encode_append_request(sent), codec.decode_append_request)

    def append_reply(self, sent: AppendReply) -> AppendReply:
        return self._carry(codec.encode_append_reply(sent), codec.decode_append_reply)

    def read_request(self, sent: ReadRequest) -> ReadRequest:
        return self._carry(codec.encode_read_request(sent), codec.decode_read_request)

    def read_reply(self, sent: ReadReply) -> ReadReply:
        return self._carry(codec.encode_read_reply(sent), codec.decode_read_reply)

    def lac_request(self, sent: LacRequest) -> LacRequest:
        return self._carry(codec.encode_lac_request(sent), codec.decode_lac_request)

    def lac_reply(self, sent: LacReply) -> LacReply:
        return self._carry(codec.encode_lac_reply(sent), codec.decode_lac_reply)

    def _carry(self, parts: list[bytes | memoryview], decode: Callable[[bytes], T]) -> T:
        data = b"".join(parts)
        if self.is_healed or not self._chance.happens(DAMAGED_MESSAGES):
            return decode(data)
        self._messages.damaged += 1
        try:
            return decode(self._flipped(data))
        except BadMessage:
            self._messages.refused += 1
            raise

    def _flipped(self, data: bytes) -> bytes:
        at = self._chance.below(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._chance.below(8)]) + data[at + 1 :]
