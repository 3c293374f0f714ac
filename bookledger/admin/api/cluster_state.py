"""The cluster's state as plain values, for the API as JSON and for the console as pages. Every function raises Away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bookie.upkeep.healing.view import ClusterView
from bookledger.cluster.survey import (
    LEDGERS_A_TURN,
    Condition,
    Copy,
    Survey,
    bookies_seen,
    copies,
    seconds_since,
)
from metadata import keys
from metadata.backup import hold
from metadata.errors import BadRecord
from metadata.healing import lease_lock
from metadata.healing.marks import Mark, Marks
from metadata.records import ledger_ids
from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.unreadable import skip
from metadata.store import MetadataStore

from .census import Counted
from .metadata_view import MetadataView, ledger, ledgers_page
from .search import Wanted, search

BOOKIES_MAX = 1000
"""On one page of bookies, and absent ones in one answer."""

FRAGMENTS_MAX = 200
"""Of a ledger, in one answer."""

MARKS_MAX = 100
"""Under-replicated ledgers in one answer: the record of each is read."""

HEALING_MAX = 200
"""Ledgers that are being healed, in one answer."""

COUNT_SECONDS_MAX = 2.0
"""So long an answer waits for the first count of all ledgers; then it goes without."""

CUSTOM_KEYS_MAX = 100
CUSTOM_CHARACTERS_MAX = 1000
"""Of a ledger's custom metadata, in an answer."""

Facts = dict[str, Any]


async def cluster(sight: MetadataView) -> Facts:
    """The whole at one glance. `counts` is null until all ledgers were counted once."""
    async with sight.looking() as store:
        name = await sight.name(store)
        view = await sight.view(store)
        began = time.monotonic()
        auditor = await lease_lock.read(store, keys.AUDITOR)
        took = time.monotonic() - began
        health = await store.health()
        restored = await hold.read(store)
        counted = await sight.census.now(store, COUNT_SECONDS_MAX)
    rows = _bookie_rows(view, counted)
    return {
        "cluster_id": name,
        "bookies_amiss": _bookies_amiss(view, counted),
        "condition": _condition(
            view,
            counted,
            has_auditor=auditor is not None,
            takes_changes=restored is None and not health.refuses,
        ),
        "bookies": {"formatted": len(rows), "living": len(view.living), "writable": _writable(view)},
        "absent": view.unexpectedly_absent[:BOOKIES_MAX],
        "auditor": None if auditor is None else auditor.bookie.bookie_id,
        "braked": view.is_braked,
        "restored": restored is not None,
        "noticed": None if restored is None or restored.noticed is None else asdict(restored.noticed),
        "lost_after_seconds": sight.wait_ms / 1000,
        "metadata": {
            "kind": health.kind,
            "version": health.version,
            "size_bytes": health.size_bytes,
            "members": dict(health.members),
            "doubt": health.doubt,
            "refuses": health.refuses,
            "answer_seconds": round(took, 6),
        },
        "disk": {
            "total_bytes": sum(one.disk_bytes_total for one in view.living.values()),
            "free_bytes": sum(one.disk_bytes_free for one in view.living.values()),
        },
        "counts": None if counted is None else _counts(counted, view),
    }


async def bookies(sight: MetadataView, first: str = "", limit: int = BOOKIES_MAX) -> Facts:
    """A page, by name, of every bookie that was ever formatted, also the dead ones. `next` begins the next page.

    One that was formatted anew while its predecessor still serves has two rows, on the same page.
    """
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        counted = await sight.census.now(store, 0)
    rows = [row for row in _bookie_rows(view, counted) if row["bookie_id"] >= first]
    names = list(dict.fromkeys(row["bookie_id"] for row in rows))
    following = names[limit] if len(names) > limit else None
    shown = [row for row in rows if following is None or row["bookie_id"] < following]
    return {"bookies": shown, "next": following}


async def ledgers(sight: MetadataView, first: int, limit: int, state: str = "", custom: str = "") -> Facts:
    """A page, by id, of all or of those that are wanted. `next` begins the next one; null at the end."""
    wanted = Wanted.of(state, custom)
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        if wanted.is_anything:
            records, following = await ledgers_page(store, first, limit)
        else:
            records, following = await search(store, wanted, first, limit)
        following_id = await ledger_ids.counted_end(store)
    return {"ledgers": await _ledger_rows(records, view), "next": following, "next_id": following_id}


async def one_ledger(sight: MetadataView, ledger_id: int, first_fragment: int) -> Facts | None:
    """A ledger with a page of its fragments, each with its copies; None where there is no such ledger."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        record = await ledger(store, ledger_id)
        mark = await _mark_of(store, ledger_id)
    if record is None:
        return None
    by_fragment: dict[int, list[Copy]] = {}
    for copy in copies(record, view):
        by_fragment.setdefault(copy.fragment.first_entry, []).append(copy)
    shown = list(by_fragment.values())[first_fragment : first_fragment + FRAGMENTS_MAX]
    end = first_fragment + FRAGMENTS_MAX
    return {
        **_ledger_row(record),
        "condition": _worst([copy for found in by_fragment.values() for copy in found]),
        "closed_ms": record.closed_ms or None,
        "writer": _writer(record),
        "has_password": bool(record.verifier),
        "accepted_loss": _loss(record),
        "custom": _custom(record),
        "fragments": [_fragment(found) for found in shown],
        "next_fragment": end if end < len(by_fragment) else None,
        "mark": None if mark is None else _mark_row(mark),
    }


async def fragments(sight: MetadataView, first: int, limit: int) -> Facts:
    """A page of the ledgers that are marked as under-replicated, with the copies that are not as they should be."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        after = keys.underreplicated(first - 1) if first else None
        page = await store.list_page(keys.UNDERREPLICATED, after=after, limit=limit)
        rows = []
        for item in page.items:
            mark = await _mark_of(store, keys.ledger_id_of(item.key))
            if mark is not None:
                rows.append({**_mark_row(mark), "copies": await _bad_copies(store, mark, view)})
    return {
        "under_replicated": rows,
        "next": None if page.next_after is None else keys.ledger_id_of(page.next_after) + 1,
    }


async def healing(sight: MetadataView) -> Facts:
    """What is copied now, how much is left, and how long that takes at this rate."""
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        auditor = await lease_lock.read(store, keys.AUDITOR)
        page = await store.list_page(keys.HEALING, limit=HEALING_MAX)
        counted = await sight.census.now(store, COUNT_SECONDS_MAX)
    rows = []
    for item in page.items:
        try:
            rows.append(_healing_row(keys.ledger_id_of(item.key), lease_lock.decode(item.key, item.value)))
        except BadRecord as error:
            skip(error)
    left = None if counted is None else counted.survey.to_copy_bytes
    rate = sum(row["bytes_per_second"] for row in rows)
    return {
        "auditor": None if auditor is None else auditor.bookie.bookie_id,
        "braked": view.is_braked,
        "absent": view.unexpectedly_absent[:BOOKIES_MAX],
        "healing": rows,
        "more": page.next_after is not None,
        "to_copy_bytes": left,
        "counted_seconds_ago": None if counted is None else _seconds_ago(counted),
        "bytes_per_second": rate,
        "seconds_left": round(left / rate) if left and rate else None,
        "moving_ledgers": None if counted is None else counted.survey.moving,
    }


def _writable(view: ClusterView) -> int:
    return sum(one.writable for one in view.living.values())


def _condition(view: ClusterView, counted: Counted | None, *, has_auditor: bool, takes_changes: bool) -> str:
    """ "whole", "wounded", or "counting" while nobody knows."""
    if view.unexpectedly_absent or view.is_braked or not takes_changes or not has_auditor:
        return "wounded"
    if counted is None:
        return "counting"
    return "whole" if counted.survey.is_whole else "wounded"


def _bookies_amiss(view: ClusterView, counted: Counted | None) -> list[str]:
    """What is wrong with bookies beside those that are absent against expectation."""
    if counted is None:
        return []
    absent = [] if view.unexpectedly_absent else counted.survey.not_registered
    return [*absent, *counted.survey.of_bookies]


def _seconds_ago(counted: Counted) -> float:
    return round(max(0.0, time.monotonic() - counted.at), 1)


def _counts(counted: Counted, view: ClusterView) -> Facts:
    seen: Survey = counted.survey
    return {
        "seconds_ago": _seconds_ago(counted),
        "ledgers": dict(sorted(seen.ledgers.items())),
        "fragments": {one.value: count for one, count in sorted(seen.fragments.items())},
        "copies_left": counted.copies_left(view),
        "under_replicated_ledgers": len(seen.amiss),
        "left_behind_ledgers": len(seen.left_behind),
        "to_copy_bytes": seen.to_copy_bytes,
        "moving_ledgers": seen.moving,
    }


def _bookie_rows(view: ClusterView, counted: Counted | None) -> list[Facts]:
    rows = []
    for one in bookies_seen(view):
        lives = one.registration
        held = None if counted is None else counted.survey.holdings.get(one.bookie)
        rows.append(
            {
                "bookie_id": one.bookie.bookie_id,
                "incarnation": one.bookie.incarnation,
                "state": one.state,
                "absent_seconds": None
                if lives is not None or one.absent_ms is None
                else one.absent_ms // 1000,
                "address": lives.address if lives else None,
                "fault_domain": (lives.fault_domain or None) if lives else None,
                "writable": lives.writable if lives else False,
                "heals": lives.heals if lives else False,
                "version": (lives.version or None) if lives else None,
                "disk_total_bytes": (lives.disk_bytes_total or None) if lives else None,
                "disk_free_bytes": lives.disk_bytes_free if lives and lives.disk_bytes_total else None,
                "ledgers": None if counted is None else (held.ledgers if held else 0),
                "fragments": None if counted is None else (held.fragments if held else 0),
                "behind": None if counted is None else counted.behind.get(one.bookie, 0),
            }
        )
    return rows


async def _ledger_rows(records: Sequence[LedgerRecord], view: ClusterView) -> list[Facts]:
    rows: list[Facts] = []
    for one in records:
        rows.append({**_ledger_row(one), "condition": _worst(list(copies(one, view)))})
        if len(rows) % LEDGERS_A_TURN == 0:
            await asyncio.sleep(0)  # lets a daemon serve others meanwhile
    return rows


def _ledger_row(record: LedgerRecord) -> Facts:
    return {
        "ledger_id": record.ledger_id,
        "state": record.state.value,
        "last_entry": record.last_entry,
        "length_bytes": record.length_bytes,
        "ensemble_size": record.shape.ensemble_size,
        "write_quorum": record.shape.write_quorum,
        "ack_quorum": record.shape.ack_quorum,
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


def _writer(record: LedgerRecord) -> str:
    """Who may append to it, as far as its record tells."""
    if record.state is LedgerState.CLOSED:
        return "none: closed for ever"
    if record.state is LedgerState.IN_RECOVERY:
        return "fenced: its end is being decided"
    return "still to come: reserved by `ledger create`" if record.reserved else "one has it open"


def _custom(record: LedgerRecord) -> list[Facts]:
    """Somebody else wrote it: it is cut, and what is no text is shown with marks in its place."""
    rows = []
    for key, value in list(record.custom_metadata.items())[:CUSTOM_KEYS_MAX]:
        text = value.decode(errors="replace")
        cut = len(text) > CUSTOM_CHARACTERS_MAX
        rows.append({"key": key[:CUSTOM_CHARACTERS_MAX], "value": text[:CUSTOM_CHARACTERS_MAX], "cut": cut})
    return rows


def _fragment(found: list[Copy]) -> Facts:
    fragment, last = found[0].fragment, found[0].last_entry
    return {
        "first_entry": fragment.first_entry,
        "last_entry": last,
        "condition": _worst(found),
        "copies": [_copy(copy) for copy in found],
    }


def _copy(copy: Copy) -> Facts:
    lack = copy.fragment.lacking_at(copy.position)
    return {
        "position": copy.position,
        "bookie_id": copy.bookie.bookie_id,
        "condition": copy.condition.value,
        "lacks": None
        if lack is None
        else [lack.first_entry, None if lack.is_everything else lack.last_entry],
    }


def _worst(found: list[Copy]) -> str:
    order = list(Condition)
    return max((copy.condition for copy in found), key=order.index).value


async def _mark_of(store: MetadataStore, ledger_id: int) -> Mark | None:
    try:
        return await Marks(store).read(ledger_id)
    except BadRecord as error:
        skip(error)
        return None


def _mark_row(mark: Mark) -> Facts:
    return {
        "ledger_id": mark.ledger_id,
        "since_seconds": int(seconds_since(mark.since_ms)),
        "reasons": list(mark.reasons),
        "tries": mark.tries,
        "why_not": mark.why_not,
    }


async def _bad_copies(store: MetadataStore, mark: Mark, view: ClusterView) -> list[Facts]:
    """Of the ledger as it stands now: it may be whole already."""
    try:
        record = await ledger(store, mark.ledger_id)
    except BadRecord as error:
        skip(error)
        record = None
    if record is None:
        return []
    bad = [c for c in copies(record, view) if c.condition not in (Condition.OPEN, Condition.WHOLE)]
    return [
        {"first_entry": one.fragment.first_entry, "last_entry": one.last_entry, **_copy(one)}
        for one in bad[:FRAGMENTS_MAX]
    ]


def _healing_row(ledger_id: int, who: lease_lock.LeaseLock) -> Facts:
    seconds = max(0.001, seconds_since(who.since_ms))
    return {
        "ledger_id": ledger_id,
        "bookie_id": who.bookie.bookie_id,
        "seconds": round(seconds, 1),
        "bytes_copied": who.bytes_done,
        "bytes_per_second": round(who.bytes_done / seconds),
    }
