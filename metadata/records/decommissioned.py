"""Which incarnations of bookies were decommissioned: a cookie that was taken away is told from one that is missing.

The record is made before the cookie is deleted, and stays, a few bytes for each bookie that ever left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from .. import keys, settled_writes
from ..errors import KeyExists
from ..store import MetadataStore
from . import records_pb2 as pb
from .unreadable import parsed

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
        format_version=FORMAT_VERSION,
        bookie_id=one.bookie_id,
        at_ms=one.at_ms,
        nonce=settled_writes.new_nonce(),
    )
    try:
        await settled_writes.create(store, keys.decommissioned(one.incarnation), message.SerializeToString())
    except KeyExists:  # said before, by a command that was interrupted
        pass


async def take_back(store: MetadataStore, incarnation: str) -> None:
    """The bookie stays after all."""
    key = keys.decommissioned(incarnation)
    found = await store.get(key)
    if found is not None:
        await settled_writes.delete_unless_changed(store, key, found.version)


async def read(store: MetadataStore, incarnation: str) -> Decommissioned | None:
    """None where nobody said so; programs before this one kept no record of it. Raises MetadataError."""
    key = keys.decommissioned(incarnation)
    found = await store.get(key)
    if found is None:
        return None
    message = parsed(pb.Decommissioned, key, found.value, FORMAT_VERSION)
    return Decommissioned(message.bookie_id, incarnation, message.at_ms)
