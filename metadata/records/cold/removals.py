"""Objects that are to be deleted from object stores, because their ledger does not need them any more (rule O3).

An entry is written before the ledger's record stops naming a copy, so no object is forgotten. It proves nothing: who
deletes objects looks first whether the record names the copy. A key that a record has stopped naming comes back in
none, since it is random.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, list_all
from .. import records_pb2 as pb
from ..unreadable import parsed, skip
from .cold_copy import ColdCopy

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Removal:
    """A copy that may have to go. `version`: of its entry."""

    ledger_id: int
    url: str
    key: str
    version: int = 0


async def add(store: MetadataStore, ledger_id: int, copy: ColdCopy) -> None:
    """Raises MetadataError."""
    message = pb.ColdRemoval(format_version=FORMAT_VERSION, ledger_id=ledger_id, url=copy.url)
    await settled_writes.put(store, keys.cold_removal(copy.key), message.SerializeToString())


async def list_removals(store: MetadataStore) -> AsyncIterator[Removal]:
    """Skips entries that cannot be decoded. Raises MetadataError."""
    async for item in list_all(store, keys.COLD_REMOVALS):
        try:
            message = parsed(pb.ColdRemoval, item.key, item.value, FORMAT_VERSION)
        except BadRecord as error:
            skip(error)
        else:
            key = item.key.removeprefix(keys.COLD_REMOVALS)
            yield Removal(message.ledger_id, message.url, key, item.version)


async def done(store: MetadataStore, removal: Removal) -> None:
    """Its objects are gone, or the ledger's record names them. Raises MetadataError."""
    await settled_writes.delete_unless_changed(store, keys.cold_removal(removal.key), removal.version)
