"""Absent bookies: formatted ones that are not registered, and since when."""

from __future__ import annotations

from dataclasses import dataclass

from .. import keys, settled_writes
from ..errors import BadRecord, KeyExists
from ..records import records_pb2 as pb
from ..records.unreadable import parsed, skip
from ..store import MetadataStore, list_all

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Absence:
    """Absence of one bookie, in this incarnation."""

    bookie_id: str
    incarnation: str
    since_ms: int


async def list_absences(store: MetadataStore) -> list[Absence]:
    """All that can be decoded, by name. Raises MetadataError."""
    found = []
    async for item in list_all(store, keys.ABSENT):
        try:
            found.append(_decode(item.key, item.value))
        except BadRecord as error:
            skip(error)
    return found


async def note(store: MetadataStore, absence: Absence) -> None:
    """Records that the bookie is absent, unless it is recorded. Raises MetadataError."""
    message = pb.Absence(
        format_version=FORMAT_VERSION,
        incarnation=absence.incarnation,
        since_ms=absence.since_ms,
        nonce=settled_writes.new_nonce(),
    )
    try:
        await settled_writes.create(store, keys.absent(absence.bookie_id), message.SerializeToString())
    except KeyExists:
        pass


async def forget(store: MetadataStore, bookie_id: str) -> None:
    """Removes the record: the bookie is back, or was removed from the cluster. Raises MetadataError."""
    key = keys.absent(bookie_id)
    found = await store.get(key)
    if found is not None:
        await settled_writes.delete_unless_changed(store, key, found.version)


def _decode(key: str, value: bytes) -> Absence:
    message = parsed(pb.Absence, key, value, FORMAT_VERSION, "absence")
    return Absence(key.removeprefix(keys.ABSENT), message.incarnation, message.since_ms)
