"""The state of every journal's acceptors, read from the metadata: epochs, segments, and lag."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.journal_record import JournalState, decode_finalized
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_store import LedgerStore
from metadata.records.record_decoding import decode_or_skip, skip
from metadata.store import MetadataStore

from .metadata_view import MetadataView


class Ahead(NamedTuple):
    """An acceptor that has all finalized segments."""

    journal_id: str
    acceptor: str
    state: JournalState


async def lag_millis(store: MetadataStore, ahead: Ahead, last_txid: int) -> int | None:
    """Returns how long an acceptor that has everything through `last_txid` has been missing the next transaction, or
    None if no record states when that transaction's segment was closed.

    The time is measured by two clocks: that of the process that closed the segment's ledger, and the local one.
    """
    ledger_id = await _ledger_after(store, ahead, last_txid)
    if ledger_id is None:
        return None
    try:
        found = await LedgerStore(store).read(ledger_id)
    except BadRecord as error:
        skip(error)
        return None
    if found is None or not found.record.closed_ms:
        return None
    return max(0, time.time_ns() // 1_000_000 - found.record.closed_ms)


async def _ledger_after(store: MetadataStore, ahead: Ahead, last_txid: int) -> int | None:
    """Returns the ledger id of the first finalized segment after this transaction."""
    state = ahead.state
    ledgers = {
        one.start_txid: one.ledger_id
        for one in state.segments
        if one.finalized and one.start_txid > last_txid
    }
    prefix = keys.journal_segments(ahead.journal_id, ahead.acceptor)
    after = keys.journal_segment(ahead.journal_id, ahead.acceptor, last_txid)
    for item in (await store.list_page(prefix, after=after, limit=1)).items:
        record = decode_or_skip(decode_finalized, item.key, item.value)
        if record is not None and state.shows(record):
            ledgers[record.start_txid] = record.ledger_id
    return ledgers[min(ledgers)] if ledgers else None


ACCEPTORS_MAX = 200
"""Maximum number of acceptors in one response, across all journals."""

SEGMENTS_MAX = 20
"""Maximum number of open segments of an acceptor in one response."""

AFTER_SEGMENTS = "segments/~"
"""A key that sorts after all segments of an acceptor and before its state; lets a listing skip a long journal in one
step."""

Facts = dict[str, Any]

_Seen = tuple[Facts, JournalState | None]
"""The row of an acceptor, and its state if it can be read."""


async def journals(sight: MetadataView) -> Facts:
    """Returns all journals, sorted by name. `lag_txids`: transactions that are finalized at other acceptors but not at
    this one; transactions in progress count only once they are finalized.

    `lag_millis`: how long the acceptor has lagged; null if no record states when the ledger of the first missing
    segment was closed.
    """
    found: dict[str, list[_Seen]] = {}
    async with sight.looking() as store:
        await sight.name(store)
        async for journal_id, acceptor in _acceptors(store):
            found.setdefault(journal_id, []).append(await _acceptor(store, journal_id, acceptor))
            if sum(map(len, found.values())) > ACCEPTORS_MAX:
                break
        described = [await _journal(store, name, seen) for name, seen in found.items()]
    shown = sum(map(len, found.values())) <= ACCEPTORS_MAX
    return {"journals": described, "more": not shown}


async def _journal(store: MetadataStore, journal_id: str, seen: list[_Seen]) -> Facts:
    rows = [row for row, _ in seen]
    newest = max((row["last_finalized_txid"] or 0 for row in rows), default=0)
    ahead = next(
        (
            Ahead(journal_id, row["acceptor"], state)
            for row, state in seen
            if state is not None and row["last_finalized_txid"] == newest
        ),
        None,
    )
    for row in rows:
        last = row["last_finalized_txid"] or 0
        row["lag_txids"] = newest - last
        if ahead is not None and last < newest:
            row["lag_millis"] = await lag_millis(store, ahead, last)
    return {
        "journal_id": journal_id,
        "writer_epoch": max((row["writer_epoch"] or 0 for row in rows), default=0),
        "last_finalized_txid": newest or None,
        "acceptors": rows,
    }


async def _acceptors(store: MetadataStore) -> AsyncIterator[tuple[str, str]]:
    """Yields a pair (journal, acceptor) for every acceptor of every journal. Reads only the first segment of each
    acceptor."""
    after: str | None = None
    while True:
        page = await store.list_page(keys.JOURNALS, after=after, limit=1)
        if not page.items:
            return
        key = after = page.items[0].key
        match key.removeprefix(keys.JOURNALS).split("/"):
            case [journal_id, acceptor, "state"] if keys.is_name(journal_id) and keys.is_name(acceptor):
                yield journal_id, acceptor
            case [journal_id, acceptor, "segments", _]:
                after = f"{keys.JOURNALS}{journal_id}/{acceptor}/{AFTER_SEGMENTS}"


async def _acceptor(store: MetadataStore, journal_id: str, acceptor: str) -> _Seen:
    try:
        found = await JournalStore(store, journal_id, acceptor).read_state()
    except BadRecord as error:
        skip(error)
        return _row(acceptor, None, None, str(error)), None
    if found is None:
        return _row(acceptor, None, None, "the acceptor has just been removed"), None
    last = await _last(store, journal_id, acceptor, found.state)
    return _row(acceptor, found.state, last, ""), found.state


async def _last(store: MetadataStore, journal_id: str, acceptor: str, state: JournalState) -> int | None:
    """Returns the end of the last finalized segment."""
    ends = [one.end_txid for one in state.segments if one.finalized and one.end_txid is not None]
    if state.last_finalized_start:
        prefix = keys.journal_segments(journal_id, acceptor)
        after = keys.journal_segment(journal_id, acceptor, state.last_finalized_start - 1)
        page = await store.list_page(prefix, after=after, limit=1)
        for item in page.items:
            record = decode_or_skip(decode_finalized, item.key, item.value)
            if record is not None and state.shows(record):
                ends.append(record.end_txid)
    return max(ends, default=None)


def _row(acceptor: str, state: JournalState | None, last: int | None, problem: str) -> Facts:
    open_ones = () if state is None else [one for one in state.segments if not one.finalized][:SEGMENTS_MAX]
    return {
        "acceptor": acceptor,
        "problem": problem,
        "namespace_id": state.storage.namespace_id if state and state.storage else None,
        "promised_epoch": state.last_promised_epoch if state else None,
        "writer_epoch": state.last_writer_epoch if state else None,
        "last_finalized_txid": last,
        "purged_before": state.purged_below if state else None,
        "lag_txids": 0,
        "lag_millis": 0,
        "in_progress": [
            {"first_txid": one.start_txid, "ledger_id": one.ledger_id, "epoch": one.writer_epoch}
            for one in open_ones
        ],
    }
