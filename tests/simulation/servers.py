"""The bookies and the metadata store of a simulated cluster. The bookies' rules are the product's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bookie.core import Answer, BookieCore, Effect, Write, remember
from bookie.ledger_state import LedgerState as BookiesView
from bookie.log.format import Record
from bookie.wire import (
    NO_ENTRIES,
    Columns,
    EntryRange,
    Frame,
    LacReply,
    ReadReply,
    Status,
    merge,
    of_payloads,
)
from metadata.ledger_record import BookieRef, LedgerRecord

from .checks import Checker
from .world import METADATA, Network, World

T = TypeVar("T")

OnAnswer = Callable[[Status, str], None]


class SimulatedBookie:
    """The real core over a log of which a crash leaves all that was synced, and perhaps a little more."""

    def __init__(self, world: World, ref: BookieRef, checker: Checker) -> None:
        self._world = world
        self._checker = checker
        self.ref = ref
        self.up = True
        self.generation = 0
        self.entries: dict[int, tuple[bytes, bytes]] = {}
        self.is_flaky = world.happens(0.2)  # its disk fails some reads and is full at times
        self._on_disk: list[Record] = []
        self._unsynced: list[tuple[Record, object]] = []
        self._sync_seconds = world.rng.choice((0.5, 2.0, 15.0))
        checker.add_disk(ref, self.entries)
        self._start()

    def _start(self) -> None:
        self._states: dict[int, BookiesView] = {}
        self.core = BookieCore(self.state_of)
        for record in self._on_disk:
            remember(self.state_of(record.ledger_id), record)

    def state_of(self, ledger_id: int) -> BookiesView:
        return self._states.setdefault(ledger_id, BookiesView(ledger_id))

    def crash(self) -> None:
        """Power is lost: of what was not synced any first part may have reached the disk."""
        survive = self._world.rng.randrange(len(self._unsynced) + 1)
        self._world.note(f"{self.ref} crashes, {survive} of {len(self._unsynced)} unsynced survive")
        for record, _ in self._unsynced[:survive]:
            self._store(record)
        self._unsynced.clear()
        self.up = False
        self.generation += 1

    def restart(self) -> None:
        if not self.up:
            self._world.note(f"{self.ref} restarts")
            self.up = True
            self._start()

    def append(self, frame: Frame, answer: OnAnswer) -> None:
        self._perform(self.core.append(frame, answer))

    def last_add_confirmed(self, ledger_id: int, answer: Callable[[LacReply], None]) -> None:
        """With fencing."""

        def fenced(status: Status, detail: str) -> None:
            if status is not Status.OK:
                return answer(LacReply(status, detail=detail))
            state = self.state_of(ledger_id)
            return answer(LacReply(self._known(state), state.last_add_confirmed))

        self._perform(self.core.fence(ledger_id, fenced))

    def read(self, ledger_id: int, first: int, last: int, answer: Callable[[ReadReply], None]) -> None:
        """A page, with fencing."""

        def fenced(status: Status, detail: str) -> None:
            if status is not Status.OK:
                return answer(ReadReply(status, detail=detail))
            return answer(self.page(ledger_id, first, last))

        self._perform(self.core.fence(ledger_id, fenced))

    def page(self, ledger_id: int, first: int, last: int) -> ReadReply:
        """Entries from `first` on; a flaky disk gives errors, damage and wrong bytes, never a false absence."""
        rng = self._world.rng
        if self.is_flaky and self._world.happens(0.2):
            return ReadReply(Status.IO_ERROR)
        covered = min(last, first + rng.randrange(6))
        found: list[Columns] = []
        damaged: list[EntryRange] = []
        for entry_id in range(first, covered + 1):
            if entry_id not in self.entries:
                continue
            payload, digest = self.entries[entry_id]
            if self.is_flaky and self._world.happens(0.2):
                if self._world.happens(0.5):
                    damaged.append(EntryRange(entry_id, entry_id))
                    continue
                payload = payload[:-1] + b"?"
            found.append(of_payloads(entry_id, [payload], digest))
        state = self.state_of(ledger_id)
        columns = merge(found) if found else NO_ENTRIES
        return ReadReply(self._known(state), columns, covered, tuple(damaged), state.last_add_confirmed)

    def _known(self, state: BookiesView) -> Status:
        return Status.OK if state.known else Status.NO_SUCH_LEDGER

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket):
                    if not self._unsynced:
                        generation = self.generation
                        delay = self._world.rng.expovariate(1 / self._sync_seconds)
                        self._world.after(delay, lambda g=generation: self._sync(g))  # type: ignore[misc]
                    self._unsynced.append((record, ticket))
                case Answer(ticket, status, detail):
                    assert callable(ticket)
                    ticket(status, detail)

    def _sync(self, generation: int) -> None:
        if generation != self.generation:
            return
        group, self._unsynced = self._unsynced, []
        if self.is_flaky and self._world.happens(0.1):
            self._world.note(f"{self.ref} is full")
            self._perform(self.core.refused([(ticket, record) for record, ticket in group], "disk full"))
            return
        for record, ticket in group:
            self._store(record)
            self._perform(self.core.on_disk(record, ticket))

    def _store(self, record: Record) -> None:
        self._on_disk.append(record)
        if record.columns is not None:
            self._checker.stored(record.columns)
            for entry_id, payload, digest in record.columns.rows():
                self.entries[entry_id] = (bytes(payload), bytes(digest))


@dataclass(frozen=True, slots=True)
class Committed:
    """This record stands, at this version."""

    record: LedgerRecord
    version: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else changed it: this stands."""

    found: Committed


class Unsettled:
    """The store stayed silent."""


Outcome = Committed | Lost | Unsettled

CAS_TRIES = 4
CAS_SECONDS = 8.0


class SimulatedMetadata:
    """One compare-and-swap register; requests and answers are lost or late, and settled as metadata/settle.py does."""

    def __init__(self, world: World, network: Network, checker: Checker, record: LedgerRecord) -> None:
        self._world = world
        self._network = network
        self._checker = checker
        self._nonces = 0
        self.stands = Committed(record, 1)

    def read(self, client: str, then: Callable[[Committed | None], None]) -> None:
        """What stands; None when no answer came."""
        self._call(client, lambda: self.stands, then)

    def change(
        self, client: str, record: LedgerRecord, version: int, then: Callable[[Outcome], None]
    ) -> None:
        """One change, tried again with the same bytes until its outcome is known or patience ends."""
        self._nonces += 1
        mine = replace(record, nonce=str(self._nonces).encode())
        self._try(client, mine, version, then, CAS_TRIES)

    def _try(
        self, client: str, mine: LedgerRecord, version: int, then: Callable[[Outcome], None], tries: int
    ) -> None:
        def answered(ok: bool | None) -> None:
            if ok:
                then(Committed(mine, version + 1))
            elif ok is False:
                self.read(client, read_back)
            elif tries > 1:
                self._try(client, mine, version, then, tries - 1)
            else:
                then(Unsettled())

        def read_back(found: Committed | None) -> None:
            if found is None:
                then(Unsettled())
            elif found.record.nonce == mine.nonce:
                then(found)
            else:
                then(Lost(found))

        self._call(client, lambda: self._swap(mine, version), answered)

    def _swap(self, record: LedgerRecord, version: int) -> bool:
        if version != self.stands.version:
            return False
        self._world.note(f"metadata {record.state} {record.last_entry} {_ensembles(record)}")
        self.stands = Committed(record, version + 1)
        self._checker.changed(record)
        return True

    def _call(self, client: str, serve: Callable[[], T], then: Callable[[T | None], None]) -> None:
        """A request that may arrive even after the caller has given it up."""
        decided = False

        def decide(value: T | None) -> None:
            nonlocal decided
            if not decided:
                decided = True
                then(value)

        def arrive() -> None:
            value = serve()
            back = self._network.delay("cas reply", METADATA, client)
            if back is not None:
                self._world.after(back, lambda: decide(value))

        there = self._network.delay("cas", client, METADATA)
        if there is not None:
            self._world.after(there, arrive)
        self._world.after(CAS_SECONDS, lambda: decide(None))


def _ensembles(record: LedgerRecord) -> str:
    return " ".join(f"{f.first_entry}:{','.join(map(str, f.ensemble))}" for f in record.fragments)
