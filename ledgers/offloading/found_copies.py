"""Finds ledgers by their objects in an object store if the metadata is lost: each index states which ledger it belongs
to."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace

from metadata.records.cold.cold_copy import ColdCopy
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.cold_index import ColdIndex

from ..cold.cold_reader import fetch_index
from ..cold.errors import BadObject
from ..cold.object_store import Objects

log = logging.getLogger(__name__)


async def copies_in(url: str) -> list[LedgerRecord]:
    """Returns the records of all ledgers that have a complete copy in this store. The records refer to that copy and
    list no bookies. Skips other objects and incomplete copies with a warning. Raises ObjectStoreFailed."""
    objects, of_key = Objects(url), defaultdict[str, dict[str, int]](dict)
    for name, size in await objects.names():
        key, _, part = name.rpartition("/")
        of_key[key][part] = size
    found = []
    for key, parts in sorted(of_key.items()):
        try:
            found.append(await _copied(objects, key, parts))
        except (BadObject, ValueError) as error:
            log.warning("%s/%s is not a copy of a ledger: %s", objects.url, key, error)
    return found


async def _copied(objects: Objects, key: str, parts: dict[str, int]) -> LedgerRecord:
    """Returns the record of a copied ledger, from its objects. Raises BadObject, ValueError."""
    copy = ColdCopy(objects.url, key)
    names = [str(part) for part in range(len(parts))]
    if parts.keys() != set(names):
        raise BadObject(f"it has the parts {sorted(parts)}, which are not the first {len(names)} parts")
    indexes = [await fetch_index(objects, copy.name_of(part)) for part in range(len(parts))]
    record = indexes[0].ledger
    _check_complete(record, indexes)
    starts = tuple(index.first_entries[0] for index in indexes)
    stored = replace(copy, part_starts=starts, size_bytes=sum(parts.values()), at_ms=record.closed_ms)
    return record.uploading(stored).without_copies()


def _check_complete(record: LedgerRecord, indexes: list[ColdIndex]) -> None:
    """Raises BadObject unless the objects hold every entry of the ledger exactly once."""
    next_entry = 0
    for index in indexes:
        if (index.ledger.ledger_id, index.ledger.identity) != (record.ledger_id, record.identity):
            raise BadObject("its parts belong to several ledgers")
        if index.first_entries[0] != next_entry:
            raise BadObject(f"entry {next_entry} is missing")
        next_entry = index.first_entries[-1]
    if record.last_entry is None or next_entry != record.last_entry + 1:
        raise BadObject(f"entry {next_entry} is missing")
