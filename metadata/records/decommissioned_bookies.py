"""Decommissioned incarnations of bookies, so that a removed cookie is distinguished from a missing one.

The record is created before the cookie is deleted, and is kept: it takes a few bytes for each bookie that was ever
removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from .. import keys, settled_writes
from ..store import MetadataStore, Versioned, list_all
from ..version import encode_record
from . import records_pb2 as pb
from .cluster import PREDECESSORS_MAX
from .record_decoding import parse_record

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Decommissioned:
    """A decommissioned bookie: when it was decommissioned, by the clock of the process that did it, and the
    predecessors in the bookie's cookie."""

    bookie_id: str
    incarnation: str
    at_ms: int
    predecessors: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        """When the bookie was decommissioned, in a readable form, in UTC."""
        return (
            datetime.fromtimestamp(self.at_ms / 1000, UTC)
            .isoformat(timespec="seconds")
            .replace("+00:00", "Z")
        )


async def note(store: MetadataStore, one: Decommissioned) -> None:
    """Records that this incarnation is decommissioned, which takes effect once its cookie is deleted. May be called
    repeatedly."""
    message = pb.Decommissioned(
        format_version=FORMAT_VERSION,
        bookie_id=one.bookie_id,
        at_ms=one.at_ms,
        nonce=settled_writes.new_nonce(),
        predecessors=one.predecessors,
    )
    key = keys.decommissioned(one.incarnation)
    await settled_writes.create_unless_there(store, key, encode_record(message))


async def take_back(store: MetadataStore, incarnation: str) -> None:
    """Removes the record, because the bookie is to be kept after all."""
    await settled_writes.delete(store, keys.decommissioned(incarnation))


async def read(store: MetadataStore, incarnation: str) -> Decommissioned | None:
    """Reads the record; returns None if there is none. Earlier versions of this program kept no record. Raises
    MetadataError."""
    key = keys.decommissioned(incarnation)
    found = await store.get(key)
    if found is None:
        return None
    return _decode(found)


async def line_of(store: MetadataStore, bookie_id: str) -> tuple[str, ...]:
    """Returns the incarnations that had this name and were decommissioned, with their predecessors. Raises
    MetadataError."""
    listed = [_decode(item) async for item in list_all(store, keys.DECOMMISSIONED)]
    found = sorted(
        (one for one in listed if one.bookie_id == bookie_id), key=lambda one: len(one.predecessors)
    )
    line = dict.fromkeys(name for one in found for name in (*one.predecessors, one.incarnation))
    return tuple(line)[-PREDECESSORS_MAX:]


def _decode(found: Versioned) -> Decommissioned:
    message = parse_record(pb.Decommissioned, found.key, found.value, FORMAT_VERSION)
    incarnation = found.key.removeprefix(keys.DECOMMISSIONED)
    return Decommissioned(message.bookie_id, incarnation, message.at_ms, tuple(message.predecessors))
