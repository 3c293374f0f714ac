"""Generations of bookie directories: number of starts, and log position, to detect an older copy of a directory."""

from __future__ import annotations

from dataclasses import dataclass

from .. import keys, settled_writes
from ..store import MetadataStore
from . import records_pb2 as pb
from .unreadable import parsed

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Life:
    """The number of a bookie's last start, and its log's durable position some time after it."""

    number: int = 0
    position: int = 0


async def read(store: MetadataStore, bookie_id: str, incarnation: str) -> Life:
    """Reads the generation of this incarnation; Life() if there is none. Raises BadRecord."""
    return (await _find(store, bookie_id, incarnation))[0]


async def write(
    store: MetadataStore, bookie_id: str, incarnation: str, life: Life, *, version: int | None = None
) -> int:
    """Writes the generation; returns the record's version. The holder of the registration is the only writer.

    `version`: of what the caller wrote last; None for any.

    Raises VersionConflict or KeyExists for another writer, StoreUnavailable where the outcome stays unknown.
    """
    if version is None:
        _, version = await _find(store, bookie_id, incarnation)
    message = pb.Life(
        format_version=FORMAT_VERSION,
        incarnation=incarnation,
        number=life.number,
        position=life.position,
        nonce=settled_writes.new_nonce(),
    )
    key, value = keys.life(bookie_id), message.SerializeToString()
    if version is None:
        return await settled_writes.create(store, key, value)
    return await settled_writes.replace(store, key, value, version)


async def _find(store: MetadataStore, bookie_id: str, incarnation: str) -> tuple[Life, int | None]:
    """(generation, version); another incarnation's does not count."""
    key = keys.life(bookie_id)
    found = await store.get(key)
    if found is None:
        return Life(), None
    message = parsed(pb.Life, key, found.value, FORMAT_VERSION)
    life = Life(message.number, message.position) if message.incarnation == incarnation else Life()
    return life, found.version
