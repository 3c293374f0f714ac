"""Surveys a whole cluster: its bookies, its ledgers with every copy of every fragment, and the running repairs.

Reads only the metadata and calls no bookies, so it also works while half of the cluster is dead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bookie.upkeep.healing import published_counts
from bookie.upkeep.healing.cluster_view import ClusterView, look
from bookie.upkeep.healing.ledger_counts import FragmentCopy, LedgerCounts, all_ledgers
from bookie.upkeep.healing.replication_tasks import is_left_behind, replication_tasks
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Restored
from metadata.errors import BadRecord
from metadata.healing import lease_lock
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.marks import Mark, Marks
from metadata.healing.operator_requests import OrderKind
from metadata.healing.planned_moves import list_moves
from metadata.records.cluster import cluster_id
from metadata.records.cold import offloader_state
from metadata.records.cold.offloader_state import OffloaderState
from metadata.records.directory_generations import last_registrations
from metadata.records.ledger_record import BookieRef, LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.records.record_decoding import skip
from metadata.records.registration import Registration
from metadata.store import MetadataStore, StoreHealth, list_all

COUNTED_LEDGERS_MIN = 1000
"""Minimum number of ledgers for which a survey uses the auditor's counts, if these suffice for the caller; fewer
ledgers are listed directly."""

LEDGERS_LISTED_MAX = 100_000
"""Maximum number of under-replicated ledgers that a survey lists; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class BookieSeen:
    """A bookie that was formatted at some point. `registration` is None if the bookie is not alive; `last` is the
    current or former registration, or None if unknown."""

    bookie: BookieRef
    state: str
    absent_ms: int | None
    registration: Registration | None
    last: Registration | None


@dataclass(slots=True)
class Survey(LedgerCounts):
    """The result of a survey: counts and lists. `bad_copies_by_ledger`: ledgers with bad copies, and those copies.
    `unclosed`: open ledgers without a writer.

    `counted_seconds_ago`: 0 if the ledgers were listed; otherwise the auditor counted them that long ago, and
    `bad_copies_by_ledger`, `unclosed` and `open_on` are empty. `moving`: the number of ledgers with copies to be moved
    for balance. `open_on`: for each bookie that is to leave, its ledgers that are still being written. `hold`: the
    metadata came from a backup that has not been accepted, or it has returned to an older state without an operator's
    action.
    """

    cluster_id: str
    metadata_seconds: float
    metadata: StoreHealth
    auditor: LeaseLock | None
    bookies: list[BookieSeen]
    marks: list[Mark] = field(default_factory=list)
    healing: dict[int, LeaseLock] = field(default_factory=dict)
    bad_copies_by_ledger: dict[int, list[FragmentCopy]] = field(default_factory=dict)
    unclosed: list[int] = field(default_factory=list)
    open_on: dict[str, list[int]] = field(default_factory=dict)
    hold: Restored | None = None
    offloader: OffloaderState | None = None
    moving: int = 0
    counted_seconds_ago: float = 0.0

    def lost_of(self, ledger_id: int) -> list[str]:
        """Among the bookies with bad copies of the ledger, returns those that will not come back, so there is no need
        to wait for them."""
        view = self.view
        refs = {copy.bookie for copy in self.bad_copies_by_ledger.get(ledger_id, ())} - view.living.keys()
        return sorted(
            {
                ref.bookie_id
                for ref in refs
                if view.orders.get(ref.bookie_id) is OrderKind.GIVEN_UP
                or view.formatted.get(ref.bookie_id, ref.incarnation) != ref.incarnation
            }
        )


async def survey(
    store: MetadataStore,
    *,
    wait_ms: int,
    on_ledger: Callable[[int], object] = lambda _: None,
    may_be_counted: bool = False,
) -> Survey | None:
    """Surveys the whole cluster; returns None if there is no cluster in the store. `on_ledger` is called with the
    number of ledgers examined since its last call.

    With `may_be_counted`, uses the auditor's counts instead of listing the ledgers, if the auditor has counted a very
    large number of them. Raises MetadataError.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    name = await cluster_id(store)
    if name is None:
        return None
    took = loop.time() - began
    view = await look(store, wait_ms)
    health = await store.health()
    auditor, bookies = (
        await lease_lock.read(store, keys.AUDITOR),
        bookies_seen(view, await lasts_of(store, view)),
    )
    seen = Survey(view, name, took, health, auditor, bookies)
    seen.hold = await hold.read(store)
    seen.offloader = await offloader_state.read(store)
    seen.marks = [mark async for mark in Marks(store).list()]
    seen.healing = await _healing(store)
    async for _ in list_moves(store):
        seen.moving += 1
    if may_be_counted and _is_counted(seen):
        return seen

    def is_deleted(_: Tombstone) -> None:
        seen.deleted += 1

    async for found in all_ledgers(LedgerStore(store).list_with_deleted(), on_ledger, is_deleted):
        _take(seen, found.record)
    return seen


def _is_counted(seen: Survey) -> bool:
    """If the auditor has counted a very large number of ledgers and the bookies have not changed since, uses the
    auditor's counts and returns True."""
    counted = published_counts.decode(seen.auditor.counts, seen.view) if seen.auditor else None
    if seen.auditor is None or counted is None:
        return False
    if counted.ledgers.total() + counted.deleted < COUNTED_LEDGERS_MIN:
        return False
    for one in fields(LedgerCounts):
        setattr(seen, one.name, getattr(counted, one.name))
    seen.counted_seconds_ago = max(0.1, round(seconds_since(seen.auditor.counted_ms), 1))
    return True


async def lasts_of(store: MetadataStore, view: ClusterView) -> dict[BookieRef, Registration]:
    """If a bookie is absent, reads and returns the former registrations of bookies; otherwise returns none. Raises
    MetadataError."""
    alive = {one.bookie_id for one in view.living}
    return await last_registrations(store) if view.formatted.keys() - alive else {}


def bookies_seen(view: ClusterView, lasts: Mapping[BookieRef, Registration]) -> list[BookieSeen]:
    """Returns every bookie, including dead ones, sorted by name."""
    refs = {BookieRef(name, incarnation) for name, incarnation in view.formatted.items()} | view.living.keys()
    return [
        BookieSeen(
            ref,
            _state(ref, view),
            view.absent_ms.get(ref.bookie_id),
            view.living.get(ref),
            view.living.get(ref) or lasts.get(ref),
        )
        for ref in sorted(refs)
    ]


def seconds_since(ms: int) -> float:
    """Returns how many seconds ago this time was; 0 if the other clock is ahead. Only for people to read, because the
    local clock is compared with another one."""
    return max(0.0, time.time() - ms / 1000)


def healing_row(ledger_id: int, who: LeaseLock) -> dict[str, Any]:
    """Describes a ledger that is being healed, with its bookie and rate, as plain values."""
    seconds = max(0.001, seconds_since(who.since_ms))
    return {
        "ledger_id": ledger_id,
        "bookie_id": who.bookie.bookie_id,
        "seconds": round(seconds, 1),
        "bytes_copied": who.bytes_done,
        "bytes_per_second": round(who.bytes_done / seconds),
    }


def _take(seen: Survey, record: LedgerRecord) -> None:
    """Counts a ledger, and adds it to the lists if it needs attention."""
    is_left = is_left_behind(record, seen.view)
    bad = seen.add(record, replication_tasks(record, seen.view), is_left)
    if bad and len(seen.bad_copies_by_ledger) < LEDGERS_LISTED_MAX:
        seen.bad_copies_by_ledger[record.ledger_id] = bad
    if is_left and len(seen.unclosed) < LEDGERS_LISTED_MAX:
        seen.unclosed.append(record.ledger_id)
    _note_open(seen, record)


def _note_open(seen: Survey, record: LedgerRecord) -> None:
    """Records the open ledgers for which a drain has to wait."""
    for bookie in () if record.is_closed else record.fragments[-1].ensemble:
        if seen.view.orders.get(bookie.bookie_id) in (OrderKind.DRAIN, OrderKind.GIVEN_UP):
            found = seen.open_on.setdefault(bookie.bookie_id, [])
            if len(found) < LEDGERS_LISTED_MAX:
                found.append(record.ledger_id)


def _state(ref: BookieRef, view: ClusterView) -> str:
    order = view.orders.get(ref.bookie_id)
    registration = view.living.get(ref)
    if registration is None:
        if order is not None and order is not OrderKind.DRAIN:
            return order.value
        return view.fate(ref).value
    if order is not None:
        return "draining" if order is OrderKind.DRAIN else f"living, {order.value}"
    return "living" if registration.writable else "read-only"


async def _healing(store: MetadataStore) -> dict[int, LeaseLock]:
    found = {}
    async for item in list_all(store, keys.HEALING):
        try:
            found[keys.ledger_id_of(item.key)] = lease_lock.decode(item.key, item.value)
        except BadRecord as error:
            skip(error)
    return found
