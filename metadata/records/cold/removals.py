"""Objects to be deleted from object stores, because their ledger no longer needs them (rule O3).

An entry is written before a copy is removed from the ledger's record, so no object is forgotten. The entry alone does
not prove that the objects may be deleted: before a program deletes them, it checks whether the record still refers to
the copy. If it does, the entry is kept for a day, because its author may be about to change the record. A key that has
been removed from a record never reappears in any record, because keys are random. If a program other than the uploader
has given up an upload, the upload may continue for a while and write another object, so its entry is kept for a day,
too.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, Versioned, list_all
from ...version import Version
from .. import records_pb2 as pb
from ..record_decoding import parse_record, skip
from .cold_copy import ColdCopy

FORMAT_VERSION = 1

UPLOAD_SECONDS_MAX = 86_400.0
"""Maximum duration of an upload; one that takes longer counts as failed."""

SKEW_SECONDS = 3600.0
"""Maximum difference between the clocks of programs that upload and delete."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A copy that may have to be deleted. `may_grow`: the upload may add further objects. `version`: the version of
    this entry."""

    ledger_id: int
    url: str
    key: str
    added_ms: int
    may_grow: bool
    version: Version

    @property
    def is_old(self) -> bool:
        """Whether the entry is so old that neither its author nor an upload can change anything any more."""
        return self.added_ms + 1000 * (UPLOAD_SECONDS_MAX + SKEW_SECONDS) <= _now_ms()


async def add(store: MetadataStore, ledger_id: int, copy: ColdCopy, *, is_over: bool = False) -> None:
    """Adds an entry. `is_over`: the uploader itself reports that it will write nothing more. Raises MetadataError."""
    message = pb.ColdRemoval(
        format_version=FORMAT_VERSION,
        ledger_id=ledger_id,
        url=copy.url,
        added_ms=_now_ms(),
        may_grow=not (copy.is_stored or is_over),
    )
    await settled_writes.put(store, keys.cold_removal(copy.key), message.SerializeToString())


async def list_removals(store: MetadataStore) -> AsyncIterator[Removal]:
    """Yields all entries; skips those that cannot be decoded. Raises MetadataError."""
    async for item in list_all(store, keys.COLD_REMOVALS):
        try:
            removal = _removal_in(item)
        except BadRecord as error:
            skip(error)
        else:
            yield removal


def _removal_in(item: Versioned) -> Removal:
    message = parse_record(pb.ColdRemoval, item.key, item.value, FORMAT_VERSION)
    try:  # an invalid key could refer to unrelated files in a directory
        copy = ColdCopy(message.url, item.key.removeprefix(keys.COLD_REMOVALS))
    except ValueError as error:
        raise BadRecord(item.key, str(error)) from error
    return Removal(message.ledger_id, copy.url, copy.key, message.added_ms, message.may_grow, item.version)


async def done(store: MetadataStore, removal: Removal) -> None:
    """Deletes the entry: its objects have been deleted, or the ledger's record refers to them. Raises MetadataError."""
    await settled_writes.delete_unless_changed(store, keys.cold_removal(removal.key), removal.version)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
