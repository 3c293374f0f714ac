"""Absent bookies: formatted ones that are not registered, and since when."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys, settle
from ..errors import BadRecord, KeyExists, NoSuchKey, VersionConflict
from ..records import records_pb2 as pb
from ..records.unreadable import skip
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
        nonce=settle.new_nonce(),
    )
    try:
        await settle.create(store, keys.absent(absence.bookie_id), message.SerializeToString())
    except KeyExists:
        pass


async def forget(store: MetadataStore, bookie_id: str) -> None:
    """Removes the record: the bookie is back, or was removed from the cluster. Raises MetadataError."""
    key = keys.absent(bookie_id)
    found = await store.get(key)
    if found is not None:
        try:
            await store.delete(key, found.version)
        except (NoSuchKey, VersionConflict):  # another client was faster
            pass


def _decode(key: str, value: bytes) -> Absence:
    try:
        message = pb.Absence.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(key, f"absence version {message.format_version}; this program knows {FORMAT_VERSION}")
    return Absence(key.removeprefix(keys.ABSENT), message.incarnation, message.since_ms)
