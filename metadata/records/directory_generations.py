"""Generations of bookie directories: number of starts, and log position, to detect an older copy of a directory."""

from __future__ import annotations

from dataclasses import dataclass

from .. import keys, settled_writes
from ..errors import BadRecord
from ..store import MetadataStore, Versioned, list_all
from . import records_pb2 as pb
from .unreadable import parsed, skip

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Life:
    """The number of a bookie's last start, and its log's durable position some time after it.

    `renewals` rises with every write of the record: one that is behind what its bookie remembers is an older copy.
    """

    number: int = 0
    position: int = 0
    renewals: int = 0


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
        renewals=life.renewals,
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
    return life_in(found, incarnation), found.version


def life_in(found: Versioned, incarnation: str) -> Life:
    """What the key says of this incarnation; Life() for another's. Raises BadRecord."""
    message = parsed(pb.Life, found.key, found.value, FORMAT_VERSION)
    if message.incarnation != incarnation:
        return Life()
    return Life(message.number, message.position, message.renewals)


async def last_renewed(store: MetadataStore) -> dict[str, int]:
    """At which version each bookie's key stands, by name; without those of programs that renew nothing."""
    found = {}
    async for item in list_all(store, keys.LIVES):
        try:
            if parsed(pb.Life, item.key, item.value, FORMAT_VERSION).renewals:
                found[item.key.removeprefix(keys.LIVES)] = item.version
        except BadRecord as error:
            skip(error)
    return found
