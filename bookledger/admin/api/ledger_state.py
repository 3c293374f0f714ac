"""Ledgers as plain values, which the API returns as JSON and the console as pages. Every function raises Away if the
metadata is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bookie.upkeep.healing.cluster_view import ClusterView
from bookie.upkeep.healing.ledger_counts import LEDGERS_A_TURN, FragmentCopy, copies, worst
from bookledger.cluster.open_ledgers import Open, confirmed_fields, why_unknown
from bookledger.cluster.survey import seconds_since
from metadata.errors import BadRecord
from metadata.healing.marks import Mark, Marks
from metadata.records import ledger_ids
from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore

from .metadata_view import MetadataView, end_of_ledgers, ledger, ledgers_page, newest_ledgers
from .search import Wanted, search

Facts = dict[str, Any]

FRAGMENTS_MAX = 200
"""Maximum number of fragments of a ledger in one response."""

CUSTOM_KEYS_MAX = 100
CUSTOM_CHARACTERS_MAX = 1000
"""Maximum number of characters of a ledger's custom metadata in one response."""

CUSTOM_KEYS_LISTED_MAX = 5
CUSTOM_CHARACTERS_LISTED_MAX = 60
"""Maximum number of characters of each ledger's custom metadata in a list of ledgers."""

NEWEST = "newest"


async def ledgers(
    sight: MetadataView,
    first: int,
    limit: int,
    state: str = "",
    custom: str = "",
    bookie: str = "",
    order: str = "",
) -> Facts:
    """Returns one page of all ledgers, or of those that match the search, sorted by id. `next` is the start of the next
    page; null at the end.

    With order NEWEST, the highest ids come first, downwards from `first`, or from the highest id if `first` is 0.
    NEWEST is only for lists without a search.
    """
    wanted = Wanted.of(state, custom, bookie)
    if order == NEWEST and not wanted.is_anything:
        raise ValueError(
            f"order={NEWEST} lists all ledgers: it cannot be combined with state, custom or bookie"
        )
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        counted = await sight.census.now(store, 0)
        if order == NEWEST:
            records, below = await newest_ledgers(
                store, first + 1 if first else await end_of_ledgers(store), limit
            )
            following = None if below is None else below - 1
        elif wanted.is_anything:
            records, following = await ledgers_page(store, first, limit)
        else:
            records, following = await search(store, wanted, first, limit)
        following_id = await ledger_ids.counted_end(store)
    return {
        "ledgers": await _ledger_rows(records, view, await sight.ask_bookies(records)),
        "next": following,
        "next_id": following_id,
        "counts": None if counted is None else dict(sorted(counted.survey.ledgers.items())),
    }


async def one_ledger(sight: MetadataView, ledger_id: int, first_fragment: int) -> Facts | None:
    """Returns a ledger with a page of its fragments, each with its copies; None if the ledger does not exist."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        record = await ledger(store, ledger_id)
        mark = await mark_of(store, ledger_id)
    if record is None:
        return None
    by_fragment: dict[int, list[FragmentCopy]] = {}
    for copy in copies(record, view):
        by_fragment.setdefault(copy.fragment.first_entry, []).append(copy)
    shown = list(by_fragment.values())[first_fragment : first_fragment + FRAGMENTS_MAX]
    end = first_fragment + FRAGMENTS_MAX
    seen = await sight.ask_bookies([record])
    return {
        **_ledger_row(record, seen),
        "why_unknown": "",
        **why_unknown(record, seen),
        "condition": worst(copy for found in by_fragment.values() for copy in found).value,
        "closed_ms": record.closed_ms or None,
        "writer": _writer(record),
        "has_password": bool(record.verifier),
        "accepted_loss": _loss(record),
        "object_store": _object_store(record),
        "custom": _custom(record, CUSTOM_KEYS_MAX, CUSTOM_CHARACTERS_MAX),
        "fragments": [_fragment(found) for found in shown],
        "next_fragment": end if end < len(by_fragment) else None,
        "mark": None if mark is None else mark_row(mark),
    }


async def _ledger_rows(records: Sequence[LedgerRecord], view: ClusterView, seen: Open) -> list[Facts]:
    rows: list[Facts] = []
    for one in records:
        custom = _custom(one, CUSTOM_KEYS_LISTED_MAX, CUSTOM_CHARACTERS_LISTED_MAX)
        rows.append({**_ledger_row(one, seen), "condition": worst(copies(one, view)).value, "custom": custom})
        if len(rows) % LEDGERS_A_TURN == 0:
            await asyncio.sleep(0)  # lets a daemon serve other requests in between
    return rows


def _ledger_row(record: LedgerRecord, seen: Open) -> Facts:
    return {
        "ledger_id": record.ledger_id,
        "state": record.state.value,
        "last_entry": record.last_entry,
        "length_bytes": record.length_bytes,
        **confirmed_fields(record, seen),
        **asdict(record.shape),
        "digest": record.digest_type.value.replace("_", "-"),
        "fragment_count": len(record.fragments),
        "created_ms": record.created_ms,
    }


def _loss(record: LedgerRecord) -> Facts | None:
    loss = record.accepted_loss
    if loss is None:
        return None
    return {
        "at_ms": loss.at_ms,
        "by": loss.by,
        "proven_through": loss.proven_through,
        "given_up": sorted(bookie.bookie_id for bookie in loss.missing),
    }


def _object_store(record: LedgerRecord) -> Facts | None:
    copy = record.cold
    if copy is None:
        return None
    return {
        "url": copy.url,
        "key": copy.key,
        "object_count": len(copy.part_starts),
        "object_bytes": copy.size_bytes,
        "is_complete": copy.is_stored,
        "on_bookies": not record.has_no_ensembles,
        "at_ms": copy.at_ms,
    }


def _writer(record: LedgerRecord) -> str:
    """Describes who may append to the ledger, as far as its record shows."""
    if record.state is LedgerState.CLOSED:
        return "none: the ledger is closed"
    if record.state is LedgerState.IN_RECOVERY:
        return "fenced: the ledger is in recovery"
    return "not started: reserved by `ledger create`" if record.reserved else "open"


def _custom(record: LedgerRecord, keys_max: int, characters_max: int) -> list[Facts]:
    """Returns the custom metadata, which is untrusted: it is truncated, and bytes that are not text are replaced."""
    rows = []
    for key, value in sorted(record.custom_metadata.items())[:keys_max]:
        text = value.decode(errors="replace")
        cut = len(text) > characters_max
        rows.append({"key": key[:characters_max], "value": text[:characters_max], "cut": cut})
    return rows


def _fragment(found: list[FragmentCopy]) -> Facts:
    fragment, last = found[0].fragment, found[0].last_entry
    return {
        "first_entry": fragment.first_entry,
        "last_entry": last,
        "condition": worst(found).value,
        "copies": [copy_row(copy) for copy in found],
    }


def copy_row(copy: FragmentCopy) -> Facts:
    lack = copy.fragment.lacking_at(copy.position)
    return {
        "position": copy.position,
        "bookie_id": copy.bookie.bookie_id,
        "condition": copy.condition.value,
        "lacks": None
        if lack is None
        else [lack.first_entry, None if lack.is_everything else lack.last_entry],
    }


async def mark_of(store: MetadataStore, ledger_id: int) -> Mark | None:
    try:
        return await Marks(store).read(ledger_id)
    except BadRecord as error:
        skip(error)
        return None


def mark_row(mark: Mark) -> Facts:
    return {
        "ledger_id": mark.ledger_id,
        "since_seconds": int(seconds_since(mark.since_ms)),
        "reasons": list(mark.reasons),
        "tries": mark.tries,
        "why_not": mark.why_not,
    }
