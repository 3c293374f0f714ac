"""Registration of a live daemon that serves journal acceptors."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys
from ..errors import BadRecord
from . import records_pb2 as pb

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class JournalNodeRecord:
    """`name` is the name of the daemon's acceptor in each journal; `session` distinguishes one run of a daemon from
    another."""

    name: str
    rpc_address: str
    http_address: str
    session: bytes

    @property
    def key(self) -> str:
        return keys.journal_node(self.name)

    def encode(self) -> bytes:
        return pb.JournalNode(
            format_version=FORMAT_VERSION,
            name=self.name,
            rpc_address=self.rpc_address,
            http_address=self.http_address,
            session=self.session,
        ).SerializeToString()


def decode(key: str, value: bytes) -> JournalNodeRecord:
    """Decodes the record under a key. Raises BadRecord."""
    try:
        message = pb.JournalNode.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(
            key, f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
        )
    return JournalNodeRecord(message.name, message.rpc_address, message.http_address, message.session)
