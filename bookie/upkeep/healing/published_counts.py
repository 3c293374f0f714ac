"""The auditor's counts over all ledgers, as JSON text in its own key, for readers that do not list all ledgers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from metadata.records.ledger_record import BookieRef, LedgerState

from .cluster_view import ClusterView
from .ledger_counts import BookieHolding, Condition, LedgerCounts

_COUNTERS: dict[str, Callable[[str], Any]] = {
    "ledgers": LedgerState,
    "fragments": Condition,
    "amiss_copies": Condition,
    "amiss_bytes": Condition,
    "copies_left": int,
}
_NUMBERS = ("deleted", "amiss_ledgers", "to_heal", "left_behind")


def encode(counts: LedgerCounts) -> str:
    """Encodes the counts, along with the bookies that they are based on."""
    numbers = {name: getattr(counts, name) for name in (*_COUNTERS, *_NUMBERS)}
    held = [[*_named(ref), *astuple(one)] for ref, one in sorted(counts.holdings.items())]
    sizes = sorted(counts.ensemble_sizes)
    return json.dumps({**numbers, "of": _of(counts.view), "ensemble_sizes": sizes, "holdings": held})


def decode(text: str, view: ClusterView) -> LedgerCounts | None:
    """Decodes counts. Returns None if the counts were made by another version of the program, or when the sets of
    living, draining and lost bookies differed from those in this view; in that case the caller counts all ledgers
    again."""
    try:
        known = json.loads(text)
        if known["of"] != _of(view):
            return None
        found: dict[str, Any] = {name: int(known[name]) for name in _NUMBERS}
        for name, kind in _COUNTERS.items():
            found[name] = Counter({kind(key): count for key, count in known[name].items()})
        holdings = {BookieRef(name, made): BookieHolding(*held) for name, made, *held in known["holdings"]}
        return LedgerCounts(view, **found, holdings=holdings, ensemble_sizes=set(known["ensemble_sizes"]))
    except (ValueError, TypeError, KeyError):
        return None


def _of(view: ClusterView) -> list[list[str]]:
    """Returns the part of the view that the counts depend on: the bookies and their fates."""
    formatted = {BookieRef(name, incarnation) for name, incarnation in view.formatted.items()}
    refs = sorted(formatted | view.living.keys())
    return [[*_named(ref), view.fate(ref).value, str(ref in view.living)] for ref in refs]


def _named(bookie: BookieRef) -> tuple[str, str]:
    return bookie.bookie_id, bookie.incarnation
