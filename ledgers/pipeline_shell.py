"""Performing the pipeline's effects: lanes, replacements, compare-and-swap. Shared by writer and recovery."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from bookie.wire import LacStatement, Status
from metadata import bookie_registry
from metadata.bookie_registry import Registration
from metadata.errors import MetadataError, NoSuchKey, StoreUnavailable, VersionConflict
from metadata.ledger_record import BookieRef, LedgerRecord
from metadata.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore

from . import placement
from .bookie_client import BookieClient, Lane
from .config import ClientConfig
from .effects import CloseLane, FindReplacements, OpenLane, Send
from .errors import BookieUnavailable, LedgerError, LedgerFenced, MetadataUnavailable, Unauthorized

E = TypeVar("E")


@dataclass(slots=True)
class Cluster:
    """What every handle of a client shares: the stores, the bookies, the settings, who failed lately."""

    store: MetadataStore
    ledgers: LedgerStore
    bookies: BookieClient
    config: ClientConfig
    rng: random.Random = field(default_factory=random.Random)
    failed_at: dict[BookieRef, float] = field(default_factory=dict)

    def note_failure(self, bookie: BookieRef) -> None:
        self.failed_at[bookie] = asyncio.get_running_loop().time()

    def failed_lately(self) -> frozenset[BookieRef]:
        """Bookies to use only where there is no other; older failures are forgotten."""
        oldest = asyncio.get_running_loop().time() - self.config.failed_bookie_seconds
        self.failed_at = {bookie: at for bookie, at in self.failed_at.items() if at > oldest}
        return frozenset(self.failed_at)


class PipelineEvents(Protocol):
    """The machine a shell reports to, already wrapped so that the effects are performed."""

    def acked(self, lane: int, through: int) -> None: ...
    def lane_failed(self, lane: int, why: str) -> None: ...
    def refused(self, lane: int, error: LedgerError) -> None: ...


class Lanes:
    """The lanes of one ledger by number."""

    def __init__(
        self,
        cluster: Cluster,
        ledger_id: int,
        events: PipelineEvents,
        last_add_confirmed: Callable[[], LacStatement | None],
        *,
        recovery: bool,
    ) -> None:
        self._cluster = cluster
        self._ledger_id = ledger_id
        self._events = events
        self._last_add_confirmed = last_add_confirmed
        self._recovery = recovery
        self._lanes: dict[int, Lane] = {}

    def open(self, effect: OpenLane) -> None:
        listener = _LaneEvents(self._cluster, self._events, effect, self._ledger_id)
        self._lanes[effect.lane] = self._cluster.bookies.open_lane(
            effect.bookie, self._ledger_id, listener, self._last_add_confirmed, recovery=self._recovery
        )

    def send(self, effect: Send) -> None:
        lane = self._lanes.get(effect.lane)
        if lane is not None:
            lane.send(effect.columns)

    def close(self, effect: CloseLane) -> None:
        lane = self._lanes.pop(effect.lane, None)
        if lane is not None:
            lane.close()

    def send_lac(self) -> None:
        """Tells every bookie of the ensemble the last-add-confirmed as it is now."""
        for lane in self._lanes.values():
            lane.send_lac()

    @property
    def are_drained(self) -> bool:
        return not any(lane.backlog_bytes for lane in self._lanes.values())

    def close_all(self) -> None:
        for number in list(self._lanes):
            self._lanes.pop(number).close()


@dataclass(slots=True)
class _LaneEvents:
    """What one lane reports, with the lane's number put to it."""

    cluster: Cluster
    events: PipelineEvents
    opened: OpenLane
    ledger_id: int

    def acked(self, through: int) -> None:
        self.events.acked(self.opened.lane, through)

    def failed(self, why: str) -> None:
        self.cluster.note_failure(self.opened.bookie)
        self.events.lane_failed(self.opened.lane, why)

    def refused(self, status: Status) -> None:
        if status is Status.UNAUTHORIZED:
            error: LedgerError = Unauthorized(self.ledger_id)
        else:
            error = LedgerFenced(self.ledger_id, f"bookie {self.opened.bookie} refuses its writer")
        self.events.refused(self.opened.lane, error)


async def find_replacements(
    cluster: Cluster, effect: FindReplacements
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    """A live bookie for each failed position, as far as there are any, and why the others are not used.

    New bookies are preferred; a failed bookie that answers is taken back into its own place only
    when there is no other. All are asked for a sign of life first: a registration outlives its
    bookie by a lease.
    """
    try:
        registered = await bookie_registry.list_bookies(cluster.store)
    except MetadataError as error:
        return {}, {"metadata": str(error)}
    rejected: dict[str, str] = {}
    candidates = [r for r in registered if _is_candidate(r, effect, rejected)]
    beside = [r for r in registered if r.bookie in effect.ensemble]
    chosen: dict[int, BookieRef] = {}
    found = await choose_alive(cluster, candidates, len(effect.failed), beside, rejected)
    for position in effect.failed:
        if found:
            chosen[position] = found.pop(0).bookie
        elif await _is_alive(cluster, effect.ensemble[position], rejected):
            chosen[position] = effect.ensemble[position]
    return chosen, rejected


def _is_candidate(registration: Registration, effect: FindReplacements, rejected: dict[str, str]) -> bool:
    name = registration.bookie.bookie_id
    if any(name == bookie.bookie_id for bookie in effect.ensemble):
        rejected[name] = "is in the ensemble"
        return False
    if not registration.writable:
        rejected[name] = "is read-only"
        return False
    return True


async def choose_alive(
    cluster: Cluster,
    candidates: list[Registration],
    count: int,
    beside: Sequence[Registration],
    rejected: dict[str, str],
) -> list[Registration]:
    """Up to `count` candidates that answer, best placed first; why others do not goes into `rejected`."""
    remaining = list(candidates)
    alive: list[Registration] = []
    while remaining and len(alive) < count:
        batch = placement.choose(
            remaining,
            count - len(alive),
            beside=[*beside, *alive],
            avoid=cluster.failed_lately(),
            rng=cluster.rng,
        )
        answers = await asyncio.gather(*(_is_alive(cluster, r.bookie, rejected) for r in batch))
        alive += [registration for registration, lives in zip(batch, answers, strict=True) if lives]
        remaining = [registration for registration in remaining if registration not in batch]
    return alive


async def _is_alive(cluster: Cluster, bookie: BookieRef, rejected: dict[str, str]) -> bool:
    try:
        await cluster.bookies.info(bookie)
        return True
    except BookieUnavailable as error:
        rejected[str(bookie)] = error.why
        cluster.note_failure(bookie)
        return False


@dataclass(frozen=True, slots=True)
class Conflict:
    """The compare-and-swap failed; `found` is what stands, None where the ledger was deleted."""

    found: VersionedRecord | None


async def change_record(
    ledgers: LedgerStore, record: LedgerRecord, version: int
) -> VersionedRecord | Conflict | MetadataUnavailable:
    """One compare-and-swap with its outcome settled (rule M1), as a value for the machine."""
    try:
        return await ledgers.change(record, version)
    except (VersionConflict, NoSuchKey):
        pass  # somebody was faster: look at what stands
    except StoreUnavailable as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")
    try:
        return Conflict(await ledgers.read(record.ledger_id))
    except MetadataError as error:
        return MetadataUnavailable(f"the metadata store did not answer: {error}")


class ChangingMachine(Protocol[E]):
    """A machine that asks for compare-and-swaps and wants to know what became of them."""

    def changed(self, record: LedgerRecord) -> list[E]: ...
    def conflicted(self, found: LedgerRecord | None) -> list[E]: ...
    def change_failed(self, error: LedgerError) -> list[E]: ...


class RecordVersion:
    """The version of the ledger's record that a handle's next change must name."""

    def __init__(self, ledgers: LedgerStore, found: VersionedRecord) -> None:
        self._ledgers = ledgers
        self.version = found.version

    async def change(self, record: LedgerRecord, machine: ChangingMachine[E]) -> list[E]:
        """Makes the change, or not, and tells the machine; returns the effects that follow."""
        match await change_record(self._ledgers, record, self.version):
            case VersionedRecord(stands, version):
                self.version = version
                return machine.changed(stands)
            case Conflict(found):
                if found is not None:
                    self.version = found.version
                return machine.conflicted(found.record if found else None)
            case error:
                return machine.change_failed(error)
