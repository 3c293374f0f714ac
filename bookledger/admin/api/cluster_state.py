"""The cluster's state as plain values, which the API returns as JSON and the console as pages. Every function raises
Away if the metadata is unavailable."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bookie.upkeep.healing.cluster_view import ClusterView
from bookledger.cluster import health
from bookledger.cluster.survey import (
    Survey,
    bookies_seen,
    lasts_of,
)
from metadata import keys
from metadata.backup import hold
from metadata.counting import facts
from metadata.counting.facts import Verdict
from metadata.healing import lease_lock
from metadata.records.cold import offloader_state
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration

from .census import Counted
from .metadata_view import MetadataView

BOOKIES_MAX = 1000
"""Maximum number of bookies on one page, and of absent bookies in one response."""

COUNT_SECONDS_MAX = 2.0
"""How long a response waits for the first count of all ledgers; after that, it is sent without the count."""

Facts = dict[str, Any]


async def cluster(sight: MetadataView) -> Facts:
    """Returns the state of the whole cluster. `counts` is null until all ledgers have been counted once."""
    async with sight.looking() as store:
        name = await sight.name(store)
        view = await sight.view(store)
        began = time.monotonic()
        auditor = await lease_lock.read(store, keys.AUDITOR)
        took = time.monotonic() - began
        store_health = await store.health()
        restored = await hold.read(store)
        offloader = await offloader_state.read(store)
        counted = await sight.census.now(store, COUNT_SECONDS_MAX)
    snapshot = health.ClusterSnapshot(view, store_health, auditor, restored, sight.silent(), offloader)
    found = health.findings(snapshot, *((counted.survey, counted.seconds_ago) if counted else (None,)))
    return {
        "cluster_id": name,
        "condition": CONDITIONS[facts.whole(found)],
        "facts": health.rows(found),
        "bookies": {
            "formatted": len(bookies_seen(view, {})),
            "living": len(view.living),
            "writable": _writable(view),
        },
        "absent": view.unexpectedly_absent[:BOOKIES_MAX],
        "auditor": None if auditor is None else auditor.bookie.bookie_id,
        "braked": view.is_braked,
        "restored": restored is not None,
        "noticed": None if restored is None or restored.noticed is None else asdict(restored.noticed),
        "lost_after_seconds": sight.wait_ms / 1000,
        "metadata": {
            "kind": store_health.kind,
            "version": store_health.version,
            "size_bytes": store_health.size_bytes,
            "members": dict(store_health.members),
            "doubt": store_health.doubt,
            "refuses": store_health.refuses,
            "answer_seconds": round(took, 6),
        },
        "disk": {
            "total_bytes": sum(one.disk_bytes_total for one in view.living.values()),
            "free_bytes": sum(one.disk_bytes_free for one in view.living.values()),
        },
        "counts": None if counted is None else _counts(counted, view),
    }


async def bookies(sight: MetadataView, first: str = "", limit: int = BOOKIES_MAX) -> Facts:
    """Returns one page of all bookies ever formatted, including dead ones, sorted by name. `next` is the start of the
    next page.

    If a bookie was reformatted and its previous incarnation is still serving, it has two rows, both on the same page.
    """
    async with sight.looking() as store:
        await sight.name(store)
        view = await sight.view(store)
        lasts = await lasts_of(store, view)
        counted = await sight.census.now(store, 0)
    rows = [row for row in _bookie_rows(view, lasts, counted) if row["bookie_id"] >= first]
    names = list(dict.fromkeys(row["bookie_id"] for row in rows))
    following = names[limit] if len(names) > limit else None
    shown = [row for row in rows if following is None or row["bookie_id"] < following]
    return {"bookies": shown, "next": following}


def _writable(view: ClusterView) -> int:
    return sum(one.writable for one in view.living.values())


CONDITIONS = {Verdict.WELL: "whole", Verdict.AMISS: "wounded", Verdict.UNKNOWN: "counting"}
"""The names of the verdicts on the whole cluster."""


def _counts(counted: Counted, view: ClusterView) -> Facts:
    seen: Survey = counted.survey
    return {
        "seconds_ago": counted.seconds_ago,
        "ledgers": dict(sorted(seen.ledgers.items())),
        "fragments": {one.value: count for one, count in sorted(seen.fragments.items())},
        "copies_left": counted.copies_left(view),
        "under_replicated_ledgers": seen.amiss_ledgers,
        "left_behind_ledgers": seen.left_behind,
        "to_copy_bytes": seen.to_copy_bytes,
        "moving_ledgers": seen.moving,
    }


def _bookie_rows(
    view: ClusterView, lasts: Mapping[BookieRef, Registration], counted: Counted | None
) -> list[Facts]:
    rows = []
    for one in bookies_seen(view, lasts):
        lives, last = one.registration, one.last
        held = None if counted is None else counted.survey.holdings.get(one.bookie)
        rows.append(
            {
                "bookie_id": one.bookie.bookie_id,
                "incarnation": one.bookie.incarnation,
                "state": one.state,
                "absent_seconds": None
                if lives is not None or one.absent_ms is None
                else one.absent_ms // 1000,
                "lives": lives is not None,
                "address": last.address if last else None,
                "fault_domain": (last.fault_domain or None) if last else None,
                "writable": lives.writable if lives else False,
                "heals": lives.heals if lives else False,
                "version": (last.version or None) if last else None,
                "disk_total_bytes": (last.disk_bytes_total or None) if last else None,
                "disk_free_bytes": last.disk_bytes_free if last and last.disk_bytes_total else None,
                "ledger_count": None if counted is None else (held.ledgers if held else 0),
                "fragment_count": None if counted is None else (held.fragments if held else 0),
                "behind": None if counted is None else (held.behind if held else 0),
            }
        )
    return rows
