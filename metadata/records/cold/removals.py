"""Objects that are to be deleted from object stores, because their ledger does not need them any more (rule O3).

An entry is written before the ledger's record stops naming a copy, so no object is forgotten. It proves nothing: who
deletes objects looks first whether the record names the copy. While it does, the entry stays for a day, because whoever
wrote it may be about to change the record. A key that a record has stopped naming comes back in none, since it is
random. An upload that somebody else has given up may go on for a while and write another object, so its entry stays for
a day, too.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, list_all
from .. import records_pb2 as pb
from ..unreadable import parsed, skip
from .cold_copy import ColdCopy

FORMAT_VERSION = 1

UPLOAD_SECONDS_MAX = 86_400.0
"""An upload that takes longer is given up."""

SKEW_SECONDS = 3600.0
"""How far clocks of those who upload and delete may be apart."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A copy that may have to go. `may_grow`: further objects of it may come. `version`: of its entry."""

    ledger_id: int
    url: str
    key: str
    added_ms: int
    may_grow: bool
    version: int

    @property
    def is_old(self) -> bool:
        """Whether nothing more comes of whoever wrote it, or uploads."""
        return self.added_ms + 1000 * (UPLOAD_SECONDS_MAX + SKEW_SECONDS) <= _now_ms()


async def add(store: MetadataStore, ledger_id: int, copy: ColdCopy, *, is_over: bool = False) -> None:
    """`is_over`: nothing more is uploaded, for whoever did that says so. Raises MetadataError."""
    message = pb.ColdRemoval(
        format_version=FORMAT_VERSION,
        ledger_id=ledger_id,
        url=copy.url,
        added_ms=_now_ms(),
        may_grow=not (copy.is_stored or is_over),
    )
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
            yield Removal(
                message.ledger_id, message.url, key, message.added_ms, message.may_grow, item.version
            )


async def done(store: MetadataStore, removal: Removal) -> None:
    """Its objects are gone, or the ledger's record names them. Raises MetadataError."""
    await settled_writes.delete_unless_changed(store, keys.cold_removal(removal.key), removal.version)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
