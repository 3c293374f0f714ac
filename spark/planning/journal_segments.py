"""Finds the finalized segments of a journal in the metadata, and their ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledgers import LedgerError
from metadata import opened_store
from metadata.records.journal_record import FinalizedSegment
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

DEFAULT_ACCEPTOR = "main"
TXID_MAX = 2**63 - 1

LOOKS_MAX = 16
"""Maximum number of attempts to list the records of a journal's segments; another attempt is made only if the journal's
state has changed during the previous one."""


@dataclass(frozen=True, slots=True)
class JournalSegment:
    """Transactions `start_txid` … `end_txid`, and the closed ledger that contains exactly these."""

    start_txid: int
    end_txid: int
    ledger_id: int
    layout_version: int
    acceptor: str = DEFAULT_ACCEPTOR
    generation: int = 0


async def finalized_segments(
    metadata_uri: str,
    journal_id: str,
    acceptors: tuple[str, ...] = (DEFAULT_ACCEPTOR,),
    from_txid: int = 0,
    to_txid: int = TXID_MAX,
    *,
    needs_start: bool = False,
) -> list[JournalSegment]:
    """Returns the segments that contain any of the transactions `from_txid` … `to_txid`, in order.

    If several acceptors have copies of a segment, uses the first copy whose ledger exists. Raises LedgerError if no
    acceptor has the journal, if there is a gap between two of these segments, or, with `needs_start`, if `from_txid`
    was purged or is beyond the next transaction.
    """
    async with opened_store(metadata_uri) as store:
        copies = await _copies(store, journal_id, acceptors)
        if needs_start:
            _check_start(journal_id, [one for found in copies.values() for one in found], from_txid)
        wanted = {
            start: [one for one in found if one.end_txid >= from_txid]
            for start, found in sorted(copies.items())
            if start <= to_txid
        }
        segments = [await _readable(store, found) for found in wanted.values() if found]
    _check_whole(journal_id, segments)
    return segments


async def _copies(
    store: MetadataStore, journal_id: str, acceptors: Sequence[str]
) -> dict[int, list[JournalSegment]]:
    """Returns the acceptors' segments, by first txid. Skips an acceptor that does not have the journal."""
    copies: dict[int, list[JournalSegment]] = {}
    is_there = False
    for acceptor in acceptors:
        found = await _finalized(JournalStore(store, journal_id, acceptor))
        if found is None:
            continue
        is_there = True
        for record in found:
            copies.setdefault(record.start_txid, []).append(_segment(record, acceptor))
    if not is_there:
        raise LedgerError(f"there is no journal {journal_id} at acceptor {' or '.join(acceptors)}")
    return copies


async def _finalized(journal: JournalStore) -> list[FinalizedSegment] | None:
    """Returns a consistent snapshot of an acceptor's segments, or None if the acceptor does not have the journal."""
    for _ in range(LOOKS_MAX):
        found = await journal.read_state()
        if found is None or found.state.storage is None:
            return None
        records = [one.segment async for one in journal.list_segments()]
        if await journal.read_state() == found:
            return list(found.state.finalized(records).values())
    raise LedgerError(
        f"the journal's records changed during each of {LOOKS_MAX} attempts to read them: try again"
    )


async def _readable(store: MetadataStore, copies: Sequence[JournalSegment]) -> JournalSegment:
    """Returns the first copy whose ledger exists. If none exists, returns the first copy: its read error explains the
    loss."""
    for one in copies if len(copies) > 1 else ():
        if await LedgerStore(store).read(one.ledger_id) is not None:
            return one
    return copies[0]


def _check_start(journal_id: str, segments: Sequence[JournalSegment], from_txid: int) -> None:
    """Rejects a start that was purged or is not written yet, because the result must not be mistaken for an empty
    range."""
    if not segments:
        raise LedgerError(f"journal {journal_id} has no finalized edits, but txid {from_txid} was requested")
    oldest, last = min(one.start_txid for one in segments), max(one.end_txid for one in segments)
    if from_txid < oldest:
        raise LedgerError(
            f"journal {journal_id} no longer has txids {from_txid} to {oldest - 1}, which were purged: the oldest "
            f"is {oldest}; read from there, or omit from_txid to begin with the oldest available txid"
        )
    if from_txid > last + 1:
        raise LedgerError(
            f"the finalized edits of journal {journal_id} end at txid {last}, but {from_txid} was requested: edits "
            "can only be read once their segment is finalized"
        )


def _check_whole(journal_id: str, segments: Sequence[JournalSegment]) -> None:
    for one, following in zip(segments, segments[1:], strict=False):
        if following.start_txid != one.end_txid + 1:
            raise LedgerError(
                f"journal {journal_id} has no finalized segment from txid {one.end_txid + 1} to "
                f"{following.start_txid - 1}: name all its acceptors, or run `bookledger journal fsck`; if those edits "
                "are lost, read the edits before and after them separately, with to_txid and from_txid"
            )


async def was_dropped(
    metadata_uri: str, journal_id: str, acceptor: str, generation: int, before_txid: int
) -> bool:
    """Returns whether the acceptor has dropped any edits before `before_txid` that it finalized in this generation.

    A rollback, a discard or a format drops segments. The record of the drop is kept even if the segments that replaced
    them are purged.
    """
    async with opened_store(metadata_uri) as store:
        found = await JournalStore(store, journal_id, acceptor).read_state()
    return found is not None and any(
        one.generation_min <= generation <= one.generation_max and one.start_txid_min < before_txid
        for one in found.state.dropped
    )


def _segment(record: FinalizedSegment, acceptor: str) -> JournalSegment:
    return JournalSegment(
        record.start_txid,
        record.end_txid,
        record.ledger_id,
        record.layout_version,
        acceptor,
        record.generation,
    )
