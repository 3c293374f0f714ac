"""How long each cursor that retains records of a log has gone without moving, as measured by auditors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore
from ...version import NO_VERSION, Version, encode_record
from .. import records_pb2 as pb
from ..record_decoding import parse_record

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a cursor has stayed at this version of its record; version 0 means that the cursor does not exist."""

    cursor_version: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class Silences:
    """The silences of one log, by cursor name, and the version that a change must specify; 0 if nothing is
    recorded."""

    by_name: Mapping[str, Silence] = field(default_factory=dict)
    version: Version = NO_VERSION

    def of(self, name: str, cursor_version: int) -> int:
        """Returns for how many milliseconds the cursor is known to have stayed at this version."""
        found = self.by_name.get(name)
        return found.silent_ms if found is not None and found.cursor_version == cursor_version else 0


async def read(store: MetadataStore, log: bytes) -> Silences:
    """Reads the silences of a log. Raises MetadataError."""
    found = await store.get(keys.silences(log))
    return Silences() if found is None else Silences(decode(found.key, found.value), found.version)


async def write(
    store: MetadataStore, log: bytes, by_name: Mapping[str, Silence], version: Version
) -> Version:
    """Replaces the record; returns its version. Raises KeyConflict if another process has replaced it."""
    return await settled_writes.write(store, keys.silences(log), encode(by_name), version or None)


async def forget(store: MetadataStore, log: bytes) -> None:
    """Deletes the record of a deleted log."""
    await settled_writes.delete(store, keys.silences(log))


def decode(key: str, value: bytes) -> Mapping[str, Silence]:
    """Decodes the silences. Raises BadRecord."""
    message = parse_record(pb.LogSilences, key, value, FORMAT_VERSION, "silences")
    if any(min(one.cursor_version, one.silent_ms) < 0 for one in message.silences):
        raise BadRecord(key, "the time since a cursor last moved, or its version, is negative")
    return {one.cursor: Silence(one.cursor_version, one.silent_ms) for one in message.silences}


def encode(by_name: Mapping[str, Silence]) -> bytes:
    return encode_record(
        pb.LogSilences(
            format_version=FORMAT_VERSION,
            silences=[
                pb.CursorSilence(cursor=name, cursor_version=one.cursor_version, silent_ms=one.silent_ms)
                for name, one in sorted(by_name.items())
            ],
            nonce=settled_writes.new_nonce(),
        )
    )
