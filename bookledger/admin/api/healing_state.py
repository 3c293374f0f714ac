"""Missing copies and running repairs as plain values, for the API and the console. Every function raises Away if the
metadata is unavailable."""

from __future__ import annotations

from itertools import islice
from typing import Any

from bookie.upkeep.healing.cluster_view import ClusterView
from bookie.upkeep.healing.ledger_counts import Condition, copies
from bookledger.cluster.survey import Survey, healing_row
from metadata import keys
from metadata.errors import BadRecord
from metadata.healing import lease_lock
from metadata.healing.marks import Mark
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore, list_some

from .cluster_state import BOOKIES_MAX, COUNT_SECONDS_MAX
from .ledger_state import FRAGMENTS_MAX, copy_row, mark_of, mark_row
from .metadata_view import MetadataView, ledger

Facts = dict[str, Any]

MARKS_MAX = 100
"""Maximum number of under-replicated ledgers in one response; limited because the record of each one is read."""

AWAY_MAX = 100
"""Maximum number of ledgers with copies on absent bookies in one response."""

HEALING_MAX = 200
"""Maximum number of ledgers being healed in one response."""


async def fragments(sight: MetadataView, first: int, limit: int) -> Facts:
    """Returns a page of the ledgers that are marked as under-replicated, with their bad copies."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        after = keys.underreplicated(first - 1) if first else None
        page = await list_some(store, keys.UNDERREPLICATED, after=after, limit=limit)
        rows = []
        for item in page.items:
            mark = await mark_of(store, keys.ledger_id_of(item.key))
            if mark is not None:
                rows.append({**mark_row(mark), "copies": await _bad_copies(store, mark, view)})
    return {
        "under_replicated": rows,
        "next": None if page.next_after is None else keys.ledger_id_of(page.next_after) + 1,
    }


async def healing(sight: MetadataView) -> Facts:
    """Returns the running repairs, the bytes left to copy, and the estimated time left at the current rate."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        auditor = await lease_lock.read(store, keys.AUDITOR)
        page = await list_some(store, keys.HEALING, limit=HEALING_MAX)
        counted = await sight.census.now(store, COUNT_SECONDS_MAX)
    rows = []
    for item in page.items:
        try:
            rows.append(healing_row(keys.ledger_id_of(item.key), lease_lock.decode(item.key, item.value)))
        except BadRecord as error:
            skip(error)
    known = None if counted is None or not counted.is_of(view) else counted.survey
    left = None if known is None else known.to_copy_bytes
    rate = sum(row["bytes_per_second"] for row in rows)
    return {
        "auditor": None if auditor is None else auditor.bookie.bookie_id,
        "braked": view.is_braked,
        "absent": view.unexpectedly_absent[:BOOKIES_MAX],
        "healing": rows,
        "more": page.next_after is not None,
        "to_copy_bytes": left,
        "away_bytes": None if known is None else known.amiss_bytes[Condition.AWAY],
        "away": [] if known is None else _away(known),
        "lost_after_seconds": sight.wait_ms / 1000,
        "counted_seconds_ago": None if counted is None else counted.seconds_ago,
        "bytes_per_second": rate,
        "seconds_left": round(left / rate) if left and rate else None,
        "moving_ledgers": None if counted is None else counted.survey.moving,
    }


def _away(counted: Survey) -> list[Facts]:
    """Returns the first AWAY_MAX ledgers with copies on absent bookies, each with the names of those bookies."""
    by_ledger = (
        (ledger_id, sorted({copy.bookie.bookie_id for copy in bad if copy.condition is Condition.AWAY}))
        for ledger_id, bad in counted.bad_copies_by_ledger.items()
    )
    found = ({"ledger_id": ledger_id, "bookies": names} for ledger_id, names in by_ledger if names)
    return list(islice(found, AWAY_MAX))


async def _bad_copies(store: MetadataStore, mark: Mark, view: ClusterView) -> list[Facts]:
    """Returns the bad copies according to the ledger's current record, or an empty list if they have already been
    healed."""
    try:
        record = await ledger(store, mark.ledger_id)
    except BadRecord as error:
        skip(error)
        record = None
    if record is None:
        return []
    bad = [c for c in copies(record, view) if not c.condition.is_well]
    return [
        {"first_entry": one.fragment.first_entry, "last_entry": one.last_entry, **copy_row(one)}
        for one in bad[:FRAGMENTS_MAX]
    ]
