"""Counts ledgers, fragments and copies by their condition, for the auditor's metrics, `cluster status`, the API and the
console. Pure."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum

from metadata.counting import facts
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Tombstone
from metadata.records.ledger_store import VersionedRecord

from ..mending.replication_task import Reason, ReplicationTask
from .cluster_view import ClusterView
from .replication_tasks import replication_tasks

LEDGERS_A_TURN = 50
"""Ledgers examined per iteration of the event loop; examining them takes a few milliseconds."""


class Condition(StrEnum):
    """The condition of a fragment's copy, from good to bad."""

    OPEN = "open"
    WHOLE = "whole"
    AWAY = "away"
    MISPLACED = "misplaced"
    DRAINING = "draining"
    LACKING = "lacking"
    LOST = "lost"

    @property
    def is_well(self) -> bool:
        return self is Condition.WHOLE or self is Condition.OPEN


_OF_REASON = {
    Reason.MISPLACED: Condition.MISPLACED,
    Reason.DRAINING: Condition.DRAINING,
    Reason.LACKING: Condition.LACKING,
    Reason.LOST: Condition.LOST,
}
_FROM_BAD = list(reversed(Condition))


@dataclass(frozen=True, slots=True)
class FragmentCopy:
    """One copy of one fragment. `last_entry` is None while the fragment is being written. `why`: if the copy may lack
    entries, the read error that its bookie reported."""

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
        """Whether the fragment may have entries: False only if the ledger was closed without any."""
        return self.last_entry is None or self.last_entry >= self.fragment.first_entry


def worst(copies: Iterable[FragmentCopy]) -> Condition:
    """Returns the worst condition of these copies of a fragment or ledger; WHOLE if there are none, because data that
    is only in an object store needs no copies."""
    return min((copy.condition for copy in copies), key=_FROM_BAD.index, default=Condition.WHOLE)


def copies(record: LedgerRecord, view: ClusterView) -> list[FragmentCopy]:
    """Returns every copy of every fragment, with its condition."""
    wanting = _wanting(replication_tasks(record, view))
    return [copy for fragment, last in record.spans() for copy in _copies(fragment, last, wanting, view)]


def _wanting(tasks: Iterable[ReplicationTask]) -> dict[tuple[int, int], Condition]:
    return {(task.fragment.first_entry, task.position): _OF_REASON[task.reason] for task in tasks}


def _copies(
    fragment: Fragment, last: int | None, wanting: Mapping[tuple[int, int], Condition], view: ClusterView
) -> Iterator[FragmentCopy]:
    for position, bookie in enumerate(fragment.ensemble):
        registration = view.living.get(bookie)
        there = Condition.OPEN if last is None else Condition.WHOLE
        found = wanting.get((fragment.first_entry, position)) or (there if registration else Condition.AWAY)
        problems = registration.problems if registration and found is Condition.LACKING else {}
        yield FragmentCopy(fragment, last, position, found, problems.get(facts.READABLE.name, ""))


@dataclass(slots=True)
class BookieHolding:
    """Summary of the copies that the metadata places on one bookie. `bytes`: estimated payload, without open fragments.
    `behind`: unhealthy copies."""

    ledgers: int = 0
    fragments: int = 0
    bytes: int = 0
    behind: int = 0


@dataclass(slots=True)
class LedgerCounts:
    """Counts over all ledgers: ledgers by state, fragments by the condition of their worst copy, and unhealthy copies.

    `deleted`: tombstones. `amiss_ledgers`: ledgers with unhealthy copies. `copies_left`: fragments, by the lowest
    number of copies on living bookies that any of their entries has. `to_heal`: ledgers for which some bookie has work
    to do; of these, `left_behind` are to be closed. `amiss_copies`: unhealthy copies; `amiss_bytes`: their estimated
    payload.
    """

    view: ClusterView
    _: KW_ONLY
    ledgers: Counter[LedgerState] = field(default_factory=Counter)
    fragments: Counter[Condition] = field(default_factory=Counter)
    amiss_copies: Counter[Condition] = field(default_factory=Counter)
    amiss_bytes: Counter[Condition] = field(default_factory=Counter)
    copies_left: Counter[int] = field(default_factory=Counter)
    deleted: int = 0
    amiss_ledgers: int = 0
    to_heal: int = 0
    left_behind: int = 0
    holdings: dict[BookieRef, BookieHolding] = field(default_factory=dict)
    ensemble_sizes: set[int] = field(default_factory=set)

    @property
    def to_copy_bytes(self) -> int:
        """Payload bytes of the copies to be made: all unhealthy copies except those waiting for their bookies."""
        return self.amiss_bytes.total() - self.amiss_bytes[Condition.AWAY]

    def add(
        self, record: LedgerRecord, tasks: Sequence[ReplicationTask], is_left: bool
    ) -> list[FragmentCopy]:
        """Counts a ledger and the work to be done for it; returns its unhealthy copies."""
        wanting, amiss = _wanting(tasks), list[FragmentCopy]()
        for (fragment, last), (_, size) in zip(record.spans(), record.copy_bytes(), strict=True):
            found = list(_copies(fragment, last, wanting, self.view))
            self._add_fragment(found, size, record.shape.write_quorum)
            amiss += [copy for copy in found if not copy.condition.is_well]
        for bookie in {one for fragment in record.fragments for one in fragment.ensemble}:
            self.holdings[bookie].ledgers += 1
        self.ledgers[record.state] += 1
        self.ensemble_sizes.add(record.shape.ensemble_size)
        self.amiss_ledgers += bool(amiss)
        self.to_heal += bool(tasks) or is_left
        self.left_behind += is_left
        return amiss

    def _add_fragment(self, found: Sequence[FragmentCopy], size: int, write_quorum: int) -> None:
        self.fragments[worst(found)] += 1
        if found and found[0].may_have_entries:
            self.copies_left[self._left(found, write_quorum)] += 1
        for copy in found:
            held = self.holdings.setdefault(copy.bookie, BookieHolding())
            held.fragments += 1
            held.bytes += size
            if not copy.condition.is_well:
                held.behind += 1
                self.amiss_copies[copy.condition] += 1
                self.amiss_bytes[copy.condition] += size

    def _left(self, found: Sequence[FragmentCopy], write_quorum: int) -> int:
        """Counts each entry's copies on living bookies, without copies that may lack entries; returns the lowest of
        these counts."""
        there = [copy.bookie in self.view.living and not copy.may_lack for copy in found]
        if all(there):
            return write_quorum
        return min(sum((there * 2)[first : first + write_quorum]) for first in range(len(there)))


async def all_ledgers(
    listed: AsyncIterable[VersionedRecord | Tombstone],
    on_ledger: Callable[[int], object],
    on_deleted: Callable[[Tombstone], object] = lambda _: None,
) -> AsyncGenerator[VersionedRecord, None]:
    """Yields the record of every listed ledger, pausing regularly so that a daemon can serve other tasks. Calls
    `on_ledger` for each ledger, and `on_deleted` for each tombstone. Raises MetadataError."""
    looked_at = 0
    async for found in listed:
        if isinstance(found, Tombstone):
            on_deleted(found)
            continue
        yield found
        on_ledger(1)
        looked_at += 1
        if looked_at % LEDGERS_A_TURN == 0:
            await asyncio.sleep(0)
