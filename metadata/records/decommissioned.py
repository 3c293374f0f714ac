"""Which incarnations of bookies were decommissioned: a cookie that was taken away is told from one that is missing.

The record is made before the cookie is deleted, and stays, a few bytes for each bookie that ever left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.message import DecodeError

from .. import keys, settle
from ..errors import BadRecord, KeyExists, NoSuchKey
from ..store import MetadataStore
from . import records_pb2 as pb

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Decommissioned:
    """When a bookie of this name was decommissioned, by the clock of who did it."""

    bookie_id: str
    incarnation: str
    at_ms: int

    @property
    def at(self) -> str:
        """For people."""
        return (
            datetime.fromtimestamp(self.at_ms / 1000, UTC)
            .isoformat(timespec="seconds")
            .replace("+00:00", "Z")
        )


async def note(store: MetadataStore, one: Decommissioned) -> None:
    """From now on this incarnation counts as decommissioned, once its cookie is gone. Twice is fine."""
    message = pb.Decommissioned(
        format_version=FORMAT_VERSION, bookie_id=one.bookie_id, at_ms=one.at_ms, nonce=settle.new_nonce()
    )
    try:
        await settle.create(store, keys.decommissioned(one.incarnation), message.SerializeToString())
    except KeyExists:  # said before, by a command that was interrupted
        pass


async def take_back(store: MetadataStore, incarnation: str) -> None:
    """The bookie stays after all."""
    key = keys.decommissioned(incarnation)
    found = await store.get(key)
    if found is not None:
        try:
            await store.delete(key, found.version)
        except NoSuchKey:  # another has done it
            pass


async def read(store: MetadataStore, incarnation: str) -> Decommissioned | None:
    """None where nobody said so; programs before this one kept no record of it. Raises MetadataError."""
    key = keys.decommissioned(incarnation)
    found = await store.get(key)
    if found is None:
        return None
    try:
        message = pb.Decommissioned.FromString(found.value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(key, f"format version {message.format_version}; this program knows {FORMAT_VERSION}")
    return Decommissioned(message.bookie_id, incarnation, message.at_ms)
