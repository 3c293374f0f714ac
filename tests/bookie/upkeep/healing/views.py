"""Views of clusters for tests: bookies a to f, each its own host."""

from __future__ import annotations

from collections.abc import Mapping

from bookie.upkeep.healing.cluster_view import ClusterView
from metadata.healing.absent_bookies import RESTART_MS
from metadata.healing.operator_requests import OrderKind
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.registration import Registration

WAIT_MS = 600_000

A, B, C, D, E, F = (BookieRef(name, f"i-{name}") for name in "abcdef")
WHOLE = Shape(3, 3, 2)


def view(
    *living: BookieRef,
    formatted: str = "abcdef",
    racks: Mapping[str, str] | None = None,
    absent_ms: Mapping[str, int] | None = None,
    orders: Mapping[str, OrderKind] | None = None,
    read_only: str = "",
) -> ClusterView:
    """`absent_ms`: for how long; a bookie that neither lives nor stands there vanished just now."""
    return ClusterView(
        wait_ms=WAIT_MS,
        living={
            one: Registration(one, f"{one}:1", (racks or {}).get(str(one), ""), str(one) not in read_only)
            for one in living
        },
        formatted={name: f"i-{name}" for name in formatted},
        absent_ms=absent_ms or {},
        orders=orders or {},
    )


def closed(*fragments: Fragment, last_entry: int = 99, shape: Shape = WHOLE) -> LedgerRecord:
    return LedgerRecord(7, shape, fragments).closed(last_entry, 1000)


LONG = {"a": WAIT_MS}
SHORT = {"a": RESTART_MS}
