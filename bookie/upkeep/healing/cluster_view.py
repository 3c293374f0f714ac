"""Snapshot of the cluster: which bookies are living, draining, away or lost. Pure, except `look`, which reads it from
the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from metadata.healing.absent_bookies import RESTART_MS, list_absences
from metadata.healing.operator_requests import OrderKind, list_orders
from metadata.records.cluster import list_bookies, list_cookies
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import MetadataStore


class Fate(StrEnum):
    """The status of a bookie, which decides what happens to the copies on it.

    AWAY: the copies wait for the bookie's return. LOST: they are copied from other bookies. DRAINING: they are copied,
    including from this bookie while it is alive.
    """

    LIVING = "living"
    DRAINING = "draining"
    AWAY = "away"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A snapshot of the cluster. `formatted`: incarnation of every bookie ever formatted; `absent_ms`: how long
    unregistered bookies have been absent, as counted by auditors.

    A bookie that is absent for `wait_ms` is lost, unless half of the cluster became absent at once: in that case,
    nothing is copied until an operator decides which of the absent bookies are to be decommissioned.
    """

    wait_ms: int
    living: Mapping[BookieRef, Registration] = field(default_factory=dict)
    formatted: Mapping[str, str] = field(default_factory=dict)
    absent_ms: Mapping[str, int] = field(default_factory=dict)
    orders: Mapping[str, OrderKind] = field(default_factory=dict)

    def fate(self, bookie: BookieRef) -> Fate:
        """Returns the fate of a bookie that a ledger record names."""
        order = self.orders.get(bookie.bookie_id)
        if bookie in self.living:
            leaves = order in (OrderKind.DRAIN, OrderKind.GIVEN_UP)
            return Fate.DRAINING if leaves else Fate.LIVING
        if self.formatted.get(bookie.bookie_id) != bookie.incarnation:
            return Fate.LOST  # its name now belongs to another bookie, or to none, so it will never come back
        if order is OrderKind.MAINTENANCE:
            return Fate.AWAY
        if order is OrderKind.GIVEN_UP:
            return Fate.LOST
        return Fate.LOST if self._is_overdue(bookie.bookie_id) and not self.is_braked else Fate.AWAY

    def _is_overdue(self, bookie_id: str) -> bool:
        absent_ms = self.absent_ms.get(bookie_id)
        return absent_ms is not None and absent_ms >= self.wait_ms

    def is_missed(self, bookie: BookieRef) -> bool:
        """Returns whether the bookie has been away for longer than a restart takes, and is not in maintenance."""
        absent_ms = self.absent_ms.get(bookie.bookie_id)
        is_expected = self.orders.get(bookie.bookie_id) is OrderKind.MAINTENANCE
        return absent_ms is not None and absent_ms >= RESTART_MS and not is_expected and not self.is_braked

    @property
    def unexpectedly_absent(self) -> list[str]:
        """Unregistered bookies for which no operator request exists."""
        alive = {bookie.bookie_id for bookie in self.living}
        return sorted(name for name in self.formatted if name not in alive and name not in self.orders)

    @property
    def is_braked(self) -> bool:
        """Whether the number of absent bookies suggests a network partition rather than failed disks."""
        unexpected = len(self.unexpectedly_absent)
        given_up = sum(order is OrderKind.GIVEN_UP for order in self.orders.values())
        return unexpected > 1 and 2 * (unexpected + given_up) >= len(self.formatted)

    def takers(self) -> list[Registration]:
        """Returns the bookies that can take copies: living, writable, and with re-replication enabled."""
        return [
            registration
            for bookie, registration in sorted(self.living.items())
            if registration.writable and registration.heals and self.fate(bookie) is Fate.LIVING
        ]

    def copies_nothing(self, bookie: BookieRef) -> bool:
        """Returns whether the bookie is alive but has re-replication disabled, so that another bookie has to take over
        the entries that this one lacks."""
        registration = self.living.get(bookie)
        return registration is not None and not registration.heals


async def look(store: MetadataStore, wait_ms: int) -> ClusterView:
    """Reads the current state of the cluster. Raises MetadataError."""
    formatted = {cookie.bookie_id: cookie.incarnation for cookie in await list_cookies(store)}
    registered = await list_bookies(store)
    absences = await list_absences(store)
    orders = await list_orders(store)
    return ClusterView(
        wait_ms=wait_ms,
        living={one.bookie: one for one in registered},
        formatted=formatted,
        absent_ms={
            one.bookie_id: one.absent_ms
            for one in absences
            if formatted.get(one.bookie_id) == one.incarnation
        },
        orders={order.bookie_id: order.kind for order in orders},
    )
