"""How often each bookie has started and how far its log has got, so that an older copy of its directory is noticed."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys, settle
from ..errors import BadRecord
from ..store import MetadataStore
from . import records_pb2 as pb

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Life:
    """The number of a bookie's last start, and how far its log had got on disk some time after it."""

    number: int = 0
    position: int = 0


async def read(store: MetadataStore, bookie_id: str, incarnation: str) -> Life:
    """What was last written of this incarnation; Life() where nothing was. Raises BadRecord."""
    return (await _find(store, bookie_id, incarnation))[0]


async def write(
    store: MetadataStore, bookie_id: str, incarnation: str, life: Life, *, version: int | None = None
) -> int:
    """Remembers this; the version of the record. The caller holds the bookie's registration, so nobody else writes.

    `version`: of what the caller wrote last; None for whatever stands there.

    Raises VersionConflict or KeyExists where somebody does, StoreUnavailable where the outcome stays unknown.
    """
    if version is None:
        _, version = await _find(store, bookie_id, incarnation)
    message = pb.Life(
        format_version=FORMAT_VERSION,
        incarnation=incarnation,
        number=life.number,
        position=life.position,
        nonce=settle.new_nonce(),
    )
    key, value = keys.life(bookie_id), message.SerializeToString()
    if version is None:
        return await settle.create(store, key, value)
    return await settle.replace(store, key, value, version)


async def _find(store: MetadataStore, bookie_id: str, incarnation: str) -> tuple[Life, int | None]:
    """(life, version); another incarnation's lives do not count."""
    key = keys.life(bookie_id)
    found = await store.get(key)
    if found is None:
        return Life(), None
    try:
        message = pb.Life.FromString(found.value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(key, f"format version {message.format_version}; this program knows {FORMAT_VERSION}")
    life = Life(message.number, message.position) if message.incarnation == incarnation else Life()
    return life, found.version
