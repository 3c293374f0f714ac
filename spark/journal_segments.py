"""The finalized segments of a journal, as the metadata has them: which ledgers hold which transactions."""

from __future__ import annotations

from dataclasses import dataclass

from ledgers import LedgerError
from metadata import open_store
from metadata.journal_record import FinalizedSegment
from metadata.journal_store import JournalStore
from metadata.store import MetadataStore

DEFAULT_ACCEPTOR = "main"


@dataclass(frozen=True, slots=True)
class Segment:
    """Transactions `start_txid` … `end_txid`, and the closed ledger that holds them and nothing else."""

    start_txid: int
    end_txid: int
    ledger_id: int
    layout_version: int


async def finalized_segments(
    metadata_uri: str, journal_id: str, acceptors: tuple[str, ...] = (DEFAULT_ACCEPTOR,), from_txid: int = 0
) -> list[Segment]:
    """Segments that hold `from_txid` or later, in order; of several acceptors, from the first that has one.

    Raises LedgerError for a journal that is not there, or has a gap in the middle.
    """
    store = await open_store(metadata_uri)
    try:
        found: dict[int, Segment] = {}
        for acceptor in acceptors:
            for segment in await _of_acceptor(store, journal_id, acceptor):
                found.setdefault(segment.start_txid, segment)
    finally:
        await store.close()
    segments = [found[start] for start in sorted(found) if found[start].end_txid >= from_txid]
    for one, following in zip(segments, segments[1:], strict=False):
        if following.start_txid != one.end_txid + 1:
            raise LedgerError(
                f"journal {journal_id} has no finalized segment from txid {one.end_txid + 1} to "
                f"{following.start_txid - 1}: name all its acceptors, or run `bookledger journal fsck`"
            )
    return segments


async def _of_acceptor(store: MetadataStore, journal_id: str, acceptor: str) -> list[Segment]:
    journal = JournalStore(store, journal_id, acceptor)
    found = await journal.read_state()
    if found is None or found.state.storage is None:
        raise LedgerError(f"there is no journal {journal_id} at acceptor {acceptor}")
    records = [one.segment async for one in journal.list_segments()]
    return [_segment(record) for record in found.state.finalized(records).values()]


def _segment(record: FinalizedSegment) -> Segment:
    return Segment(record.start_txid, record.end_txid, record.ledger_id, record.layout_version)
