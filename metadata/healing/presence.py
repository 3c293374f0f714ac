"""Determines whether a bookie is alive, away or lost: one that is away may come back; a lost one will not.

The decision is based only on the metadata. A bookie counts as lost only if an operator gave it up or decommissioned it,
or if another disk has its name; a bookie that has been absent for a long time still counts as away.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ..errors import StoreRefused
from ..records import cluster, decommissioned_bookies
from ..records.cluster import find_bookie
from ..records.ledger_record import BookieRef
from ..store import MetadataStore
from . import absent_bookies, operator_requests
from .operator_requests import OrderKind

T = TypeVar("T")

NOT_REGISTERED = "not registered: stopped, or cut off from the metadata"


class Presence(StrEnum):
    LIVING = "living"
    AWAY = "away"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Presence of a bookie. `why`: the reason, as text for people; empty for a live bookie."""

    bookie: BookieRef
    presence: Presence
    why: str = ""

    @property
    def is_lost(self) -> bool:
        return self.presence is Presence.LOST


@dataclass(frozen=True, slots=True)
class Expected:
    """A formatted bookie that belongs to the cluster."""

    bookie: BookieRef
    is_in_maintenance: bool


async def expected_bookies(store: MetadataStore) -> list[Expected]:
    """Returns, sorted by name, every formatted bookie, registered or not, that is neither being drained nor marked as
    given up. Raises MetadataError."""
    cookies = await cluster.list_cookies(store)
    orders = {
        order.bookie_id: order.kind for order in await _if_allowed(operator_requests.list_orders(store)) or ()
    }
    return [
        Expected(
            BookieRef(one.bookie_id, one.incarnation), orders.get(one.bookie_id) is OrderKind.MAINTENANCE
        )
        for one in cookies
        if orders.get(one.bookie_id) not in (OrderKind.DRAIN, OrderKind.GIVEN_UP)
    ]


async def absent_for_long(store: MetadataStore) -> frozenset[BookieRef]:
    """Returns the bookies that, according to the auditors, have been away for longer than a restart takes. Time during
    which the metadata is unavailable does not count. Raises MetadataError."""
    absences = await _if_allowed(absent_bookies.list_absences(store)) or ()
    return frozenset(
        BookieRef(one.bookie_id, one.incarnation)
        for one in absences
        if one.absent_ms >= absent_bookies.RESTART_MS
    )


async def whereabouts(store: MetadataStore, bookie: BookieRef) -> Whereabouts:
    """Returns the presence of this incarnation of a bookie. Raises MetadataError."""
    registered = await find_bookie(store, bookie.bookie_id)
    if registered is not None and registered.bookie == bookie:
        return Whereabouts(bookie, Presence.LIVING)
    cookie = await cluster.read_cookie(store, bookie.bookie_id)
    if registered is not None or (cookie is not None and cookie.incarnation != bookie.incarnation):
        return Whereabouts(
            bookie, Presence.LOST, "its disk is lost: the bookie's name was given to another disk"
        )
    if cookie is None:
        return await _without_cookie(store, bookie)
    order = await _if_allowed(operator_requests.read(store, bookie.bookie_id))
    if order is not None and order.kind is OrderKind.GIVEN_UP:
        return Whereabouts(bookie, Presence.LOST, "it was given up")
    if order is not None and order.kind is OrderKind.MAINTENANCE:
        return Whereabouts(bookie, Presence.AWAY, "it is in maintenance")
    return Whereabouts(bookie, Presence.AWAY, f"it is {NOT_REGISTERED}")


async def _without_cookie(store: MetadataStore, bookie: BookieRef) -> Whereabouts:
    gone = await _if_allowed(decommissioned_bookies.read(store, bookie.incarnation))
    if gone is not None:
        return Whereabouts(bookie, Presence.LOST, f"it was decommissioned at {gone.at}")
    why = (
        "it is not registered, and its cookie is missing from the metadata "
        "(`bookledger bookie restore-cookie`)"
    )
    return Whereabouts(bookie, Presence.AWAY, why)


async def _if_allowed(asked: Awaitable[T]) -> T | None:
    """Returns the result; None if the client's etcd role may not read the key, in which case the caller assumes that
    the record does not exist."""
    try:
        return await asked
    except StoreRefused:
        return None
