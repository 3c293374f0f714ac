"""Reads the records of an acceptor's finalized segments, and reports those that cannot be decoded."""

from __future__ import annotations

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.journal_record import FinalizedSegment, decode_finalized
from metadata.records.journal_store import JournalStore
from metadata.store import MetadataStore, list_all

Records = tuple[tuple[FinalizedSegment, ...], tuple[str, ...]]
"""Those that can be decoded, in order, and what is wrong with each of the others."""


async def records_of(store: MetadataStore, journal: JournalStore, journal_id: str, acceptor: str) -> Records:
    """All records of an acceptor. Raises MetadataError where they cannot be listed."""
    try:
        return tuple([found.segment async for found in journal.list_segments()]), ()
    except BadRecord:
        return await _one_by_one(store, keys.journal_segments(journal_id, acceptor))


async def _one_by_one(store: MetadataStore, prefix: str) -> Records:
    records: list[FinalizedSegment] = []
    unreadable: list[str] = []
    async for item in list_all(store, prefix):
        try:
            records.append(decode_finalized(item.key, item.value))
        except BadRecord as error:
            unreadable.append(str(error))
    return tuple(records), tuple(unreadable)
