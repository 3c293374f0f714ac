"""Surveys a whole cluster: its bookies, its ledgers with every copy of every fragment, and the running repairs.

Reads the metadata alone and asks no bookie, so that it works while half of the cluster is dead, too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bookie.upkeep.healing.replication_tasks import is_left_behind, replication_tasks
from bookie.upkeep.healing.view import ClusterView, Fate, look
from bookie.upkeep.mending.replication_task import Reason
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Restored
from metadata.counting import facts
from metadata.errors import BadRecord
from metadata.healing import lease_lock
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.marks import Mark, Marks
from metadata.healing.operator_requests import OrderKind
from metadata.healing.planned_moves import list_moves
from metadata.records.cluster import cluster_id
from metadata.records.directory_generations import last_registrations
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.records.unreadable import skip
from metadata.store import MetadataStore, StoreHealth, list_all

LEDGERS_LISTED_MAX = 100_000
"""Under-replicated ledgers that a survey names; the rest are only counted."""

LEDGERS_A_TURN = 50
"""Ledgers examined per iteration of the event loop: some milliseconds."""


class Condition(StrEnum):
    """The condition of a fragment's copy, from good to bad."""

    OPEN = "open"
    WHOLE = "whole"
    AWAY = "away"
    MISPLACED = "misplaced"
    DRAINING = "draining"
    LACKING = "lacking"
    LOST = "lost"


_OF_REASON = {
    Reason.MISPLACED: Condition.MISPLACED,
    Reason.DRAINING: Condition.DRAINING,
    Reason.LACKING: Condition.LACKING,
    Reason.LOST: Condition.LOST,
}
TO_BE_COPIED = frozenset(_OF_REASON.values())
_FROM_BAD = list(reversed(Condition))


@dataclass(frozen=True, slots=True)
class BookieSeen:
    """A bookie that was ever formatted. `registration` is None if it does not live; `last` is that, or what it was
    registered as before, None where that is not known."""

    bookie: BookieRef
    state: str
    absent_ms: int | None
    registration: Registration | None
    last: Registration | None


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of one fragment. `last_entry` is None while the fragment is being written. `why`: what its bookie could
    not read, where it may lack entries."""

    fragment: Fragment
    last_entry: int | None
    position: int
    condition: Condition
    why: str = ""

    @property
    def bookie(self) -> BookieRef:
        return self.fragment.ensemble[self.position]

    @property
    def may_lack(self) -> bool:
        return self.fragment.lacking_at(self.position) is not None

    @property
    def may_have_entries(self) -> bool:
        """False of a ledger that was closed without any."""
        return self.last_entry is None or self.last_entry >= self.fragment.first_entry


@dataclass(slots=True)
class BookieHolding:
    """How much the metadata places on one bookie. `bytes` of payload, estimated, without open fragments."""

    ledgers: int = 0
    fragments: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Survey:
    """The result. `amiss` are the ledgers with bad copies, and those copies.

    `to_copy_bytes`: estimated payload of the copies to be made, `away_bytes` of those that wait for their bookies;
    `moving`: ledgers with copies to be moved for balance. `copies_left`: fragments, by the fewest copies that an entry
    of theirs has on bookies that live. `open_on`: ledgers still being written, by the bookies that are to leave.
    `hold`: the metadata came from a backup that is not accepted, or went back by itself.
    """

    cluster_id: str
    view: ClusterView
    metadata_seconds: float
    metadata: StoreHealth
    auditor: LeaseLock | None
    bookies: list[BookieSeen]
    marks: list[Mark] = field(default_factory=list)
    healing: dict[int, LeaseLock] = field(default_factory=dict)
    ledgers: Counter[str] = field(default_factory=Counter)
    fragments: Counter[Condition] = field(default_factory=Counter)
    copies_left: Counter[int] = field(default_factory=Counter)
    amiss: dict[int, list[Copy]] = field(default_factory=dict)
    left_behind: list[int] = field(default_factory=list)
    holdings: dict[BookieRef, BookieHolding] = field(default_factory=dict)
    ensemble_sizes: set[int] = field(default_factory=set)
    open_on: dict[str, list[int]] = field(default_factory=dict)
    hold: Restored | None = None
    to_copy_bytes: int = 0
    away_bytes: int = 0
    moving: int = 0

    def lost_of(self, ledger_id: int) -> list[str]:
        """The bookies that hold copies of a ledger that is not whole, and will not come back: nobody need wait for
        them."""
        view = self.view
        refs = {copy.bookie for copy in self.amiss.get(ledger_id, ())} - view.living.keys()
        return sorted(
            {
                ref.bookie_id
                for ref in refs
                if view.orders.get(ref.bookie_id) is OrderKind.GIVEN_UP
                or view.formatted.get(ref.bookie_id, ref.incarnation) != ref.incarnation
            }
        )


async def survey(
    store: MetadataStore, *, wait_ms: int, on_ledger: Callable[[int], object] = lambda _: None
) -> Survey | None:
    """Surveys the whole cluster; None if there is none at this URI. `on_ledger` is told of ledgers that were looked at.

    Raises MetadataError.
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
    seen = Survey(name, view, took, health, auditor, bookies)
    seen.hold = await hold.read(store)
    seen.marks = [mark async for mark in Marks(store).list()]
    seen.healing = await _healing(store)
    async for _ in list_moves(store):
        seen.moving += 1
    looked_at = 0
    async for found in LedgerStore(store).list():
        _take(seen, found.record)
        on_ledger(1)
        looked_at += 1
        if looked_at % LEDGERS_A_TURN == 0:
            await asyncio.sleep(0)  # lets a daemon serve others meanwhile
    return seen


async def lasts_of(store: MetadataStore, view: ClusterView) -> dict[BookieRef, Registration]:
    """What bookies were registered as before, read only where one is absent. Raises MetadataError."""
    alive = {one.bookie_id for one in view.living}
    return await last_registrations(store) if view.formatted.keys() - alive else {}


def bookies_seen(view: ClusterView, lasts: Mapping[BookieRef, Registration]) -> list[BookieSeen]:
    """Every bookie, also dead ones, by name."""
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
    """By our clock and another's, so for people to read only: 0 where theirs was ahead."""
    return max(0.0, time.time() - ms / 1000)


def healing_row(ledger_id: int, who: LeaseLock) -> dict[str, Any]:
    """A ledger that is being healed, by whom, and how fast, as plain values."""
    seconds = max(0.001, seconds_since(who.since_ms))
    return {
        "ledger_id": ledger_id,
        "bookie_id": who.bookie.bookie_id,
        "seconds": round(seconds, 1),
        "bytes_copied": who.bytes_done,
        "bytes_per_second": round(who.bytes_done / seconds),
    }


def copy_bytes(record: LedgerRecord) -> Iterator[tuple[Fragment, int]]:
    """Every fragment, with the estimated payload bytes of one copy of it; 0 for one being written."""
    starts = [one.length_before for one in record.fragments]
    ends = [*starts[1:], starts[-1] if record.length_bytes is None else record.length_bytes]
    shape = record.shape
    for fragment, start, end in zip(record.fragments, starts, ends, strict=True):
        yield fragment, max(0, end - start) * shape.write_quorum // shape.ensemble_size


def copies(record: LedgerRecord, view: ClusterView) -> Iterator[Copy]:
    """Every copy of every fragment, with its condition."""
    wanting = {
        (task.fragment.first_entry, task.position): _OF_REASON[task.reason]
        for task in replication_tasks(record, view)
    }
    for fragment, last in record.spans():
        for position, bookie in enumerate(fragment.ensemble):
            found = wanting.get((fragment.first_entry, position))
            if found is None and view.fate(bookie) in (Fate.AWAY, Fate.LOST):
                found = Condition.AWAY
            fine = Condition.OPEN if last is None else Condition.WHOLE
            told = view.living.get(bookie) if found is Condition.LACKING else None
            why = told.amiss.get(facts.READABLE.name, "") if told else ""
            yield Copy(fragment, last, position, found or fine, why)


def _take(seen: Survey, record: LedgerRecord) -> None:
    seen.ledgers[record.state.value] += 1
    seen.ensemble_sizes.add(record.shape.ensemble_size)
    _count_holdings(seen, record)
    _note_open(seen, record)
    found = list(copies(record, seen.view))
    size = record.shape.ensemble_size
    for start in range(0, len(found), size):
        part = found[start : start + size]
        conditions = {copy.condition for copy in part}
        seen.fragments[next(one for one in _FROM_BAD if one in conditions)] += 1
        if part[0].may_have_entries:
            seen.copies_left[_copies_left(part, record.shape.write_quorum, seen.view)] += 1
    sizes = {fragment.first_entry: size for fragment, size in copy_bytes(record)}
    seen.to_copy_bytes += sum(
        sizes[copy.fragment.first_entry] for copy in found if copy.condition in TO_BE_COPIED
    )
    seen.away_bytes += sum(
        sizes[copy.fragment.first_entry] for copy in found if copy.condition is Condition.AWAY
    )
    bad = [copy for copy in found if copy.condition not in (Condition.OPEN, Condition.WHOLE)]
    if bad and len(seen.amiss) < LEDGERS_LISTED_MAX:
        seen.amiss[record.ledger_id] = bad
    if is_left_behind(record, seen.view) and len(seen.left_behind) < LEDGERS_LISTED_MAX:
        seen.left_behind.append(record.ledger_id)


def _copies_left(fragment: Sequence[Copy], write_quorum: int, view: ClusterView) -> int:
    """The fewest copies that an entry of the fragment has on bookies that live. One that may lack some has none."""
    there = [copy.bookie in view.living and not copy.may_lack for copy in fragment]
    return min(sum((there * 2)[first : first + write_quorum]) for first in range(len(there)))


def _count_holdings(seen: Survey, record: LedgerRecord) -> None:
    named = Counter(bookie for fragment in record.fragments for bookie in fragment.ensemble)
    for bookie, fragments in named.items():
        held = seen.holdings.setdefault(bookie, BookieHolding())
        held.ledgers += 1
        held.fragments += fragments
    for fragment, size in copy_bytes(record):
        for bookie in fragment.ensemble:
            seen.holdings[bookie].bytes += size


def _note_open(seen: Survey, record: LedgerRecord) -> None:
    """Records open ledgers that a drain has to wait for."""
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
