"""What a simulated bookie stores: the product's core over a log in memory whose syncs take time.

What was not synced is lost at a crash, or a first part of it survives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from bookie.index.ledger_state import Fence, LedgerState
from bookie.log.format import Record
from bookie.storage.core import Answer, BookieCore, Effect, Write, remember
from bookie.storage.counting.metrics import BookieMetrics
from bookie.storage.intake_queue import Arrival
from bookie.storage.reply_batch import ReplyBatch
from bookie.wire import (
    NO_ENTRIES,
    NO_ENTRY,
    EntryRange,
    Frame,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    Status,
    merge,
    of_payloads,
)
from metadata.records.ledger_record import BookieRef
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import Headline
from tests.simulation.cores.plans.plan import FailSync
from tests.simulation.cores.site.disk import SimulatedDisk
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.world import Action

from .site import Site
from .watch import Watch

PAGE_ENTRIES_MAX = 6
"""A page ends after so many entries or fewer: what a bound in bytes does."""

LEASE_SECONDS = 20.0
REGISTER_AGAIN_SECONDS = 1.0

T = TypeVar("T")

DISK_FULL = "disk full"

OnAnswer = Callable[[Status, str], None]


class Machine(Protocol):
    """What the log runs on."""

    name: str
    ref: BookieRef
    site: Site
    watch: Watch
    disk: SimulatedDisk
    pages: Stream

    def deliver(self, event: Action) -> None:
        """Something reaches the process: now, or after its pause."""
        ...

    def die_of(self, failure: FailSync) -> None: ...


class LogInMemory:
    """Storage as `BookieService` uses a `bookie.Bookie`: the real core, and a log whose syncs take time."""

    def __init__(self, host: Machine) -> None:
        self._host = host
        self._site = host.site
        self._states: dict[int, LedgerState] = {}
        self._core = BookieCore(self._state_of)
        self._unsynced: list[tuple[Record, object, bool]] = []
        self._heard: dict[int, asyncio.Event] = {}
        self._may_wait = True
        self.answers = ReplyBatch()
        self.is_dead = False
        self.incarnation = host.ref.incarnation
        self.metrics = BookieMetrics(1.0)
        self.syncs = 0
        for record in host.disk.records:
            remember(self._state_of(record.ledger_id), record)

    def _state_of(self, ledger_id: int) -> LedgerState:
        return self._states.setdefault(ledger_id, LedgerState(ledger_id))

    def verifier_of(self, ledger_id: int) -> bytes | None:
        return self._state_of(ledger_id).verifier

    def readers_verifier(self, ledger_id: int) -> bytes:
        return self._state_of(ledger_id).readers_verifier

    def is_fenced(self, ledger_id: int) -> bool:
        return self._state_of(ledger_id).fence is Fence.DURABLE

    @property
    def space(self) -> LogInMemory:
        """The disk's space is looked at here too."""
        return self

    @property
    def why_read_only(self) -> str:
        return DISK_FULL if self._host.disk.is_full else ""

    @property
    def index(self) -> LogInMemory:
        """Notes are looked up here too."""
        return self

    @property
    def notes(self) -> LogInMemory:
        return self

    def latest(self, ledger_id: int) -> Headline | None:
        """What the note of the ledger's last fragment says, of those on disk."""
        records = (one for one in self._host.disk.records if one.ledger_id == ledger_id)
        return max((fragment_note.headline(one.note) for one in records if one.note), default=None)

    # --- requests -------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return True

    async def room(self) -> None:
        """The queue of this log has room for whatever the streams' windows let through."""

    def append(self, frame: Frame, answer: OnAnswer, arrival: Arrival | None = None) -> None:
        del arrival  # nobody asks here how long it took
        if not frame.recovery:
            self._host.watch[frame.ledger_id].told(frame.last_add_confirmed)
        self._perform(self._core.append(frame, answer))

    async def read(self, request: ReadRequest) -> ReadReply:
        if request.fence:
            status, detail = await self._fence(request)
            if status is not Status.OK:
                return ReadReply(status, detail=detail)
        if why := self._state_of(request.ledger_id).identity_mismatch(request.identity):
            return ReadReply(Status.WRONG_IDENTITY, detail=why)
        return self._page(request)

    async def last_add_confirmed(
        self, request: LacRequest, hurried: asyncio.Future[None] | None = None
    ) -> LacReply:
        del hurried  # nobody comes past a limit here
        if request.fence:
            status, detail = await self._fence(request)
            if status is not Status.OK:
                return LacReply(status, detail=detail)
        await self._news(request)
        state = self._state_of(request.ledger_id)
        if why := state.identity_mismatch(request.identity):
            return LacReply(Status.WRONG_IDENTITY, detail=why)
        told = state.last_add_confirmed
        checker = self._host.watch[request.ledger_id].checker
        checker.lac_answered(self._host.ref, told.last_entry if told else NO_ENTRY)
        return LacReply(_known(state), told)

    def end_waits(self) -> None:
        self._may_wait = False
        for heard in self._heard.values():
            heard.set()

    async def _fence(self, request: ReadRequest | LacRequest) -> tuple[Status, str]:
        ledger_id = request.ledger_id
        decided: asyncio.Future[tuple[Status, str]] = self._site.loop.create_future()

        def answer(status: Status, detail: str) -> None:
            if status is Status.OK:
                self._host.watch[ledger_id].checker.fence_answered(self._host.ref)
            if not decided.done():
                decided.set_result((status, detail))

        fence = self._core.fence(ledger_id, answer, request.credential.verifier, request.identity)
        self._perform(fence)
        return await decided

    async def _news(self, request: LacRequest) -> None:
        """Returns when a later last-add-confirmed is known, or the time that may be waited is over."""
        deadline = self._site.loop.time() + request.wait_ms / 1000
        while self._may_wait and self._site.loop.time() < deadline:
            told = self._state_of(request.ledger_id).last_add_confirmed
            if told is not None and told.last_entry > request.wait_beyond:
                return
            heard = self._heard.setdefault(request.ledger_id, asyncio.Event())
            heard.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await heard.wait()
            except TimeoutError:  # the time that may be waited is over, which is an answer too
                return

    def _page(self, request: ReadRequest) -> ReadReply:
        """Entries from the first on; a bad disk gives errors and damage, never a false absence."""
        disk, entries = self._host.disk, self._host.watch[request.ledger_id].disk(self._host.ref)
        if disk.fails_read():
            return ReadReply(Status.IO_ERROR)
        covered = min(request.last_entry, request.first_entry + self._host.pages.below(PAGE_ENTRIES_MAX))
        columns, damaged = NO_ENTRIES, []
        for entry_id in range(request.first_entry, covered + 1):
            if entry_id in entries:
                copy = disk.read_copy(entry_id, entries)
                if copy is None:
                    damaged.append(EntryRange(entry_id, entry_id))
                else:
                    columns = merge([columns, of_payloads(entry_id, [copy[0]], copy[1])])
        state = self._state_of(request.ledger_id)
        return ReadReply(_known(state), columns, covered, tuple(damaged), state.last_add_confirmed)

    # --- the log ----------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket, deferred_sync) if deferred_sync and self._host.disk.is_full:
                    self._perform(self._core.refused([(ticket, record)], DISK_FULL))
                case Write(record, ticket, deferred_sync):
                    if not self._unsynced:
                        seconds = self._host.disk.sync_seconds()
                        self._site.world.after(seconds, lambda: self._host.deliver(self.sync))
                    self._unsynced.append((record, ticket, deferred_sync))
                    if deferred_sync:  # such a record is in the log at once, if that has room
                        self._perform(self._core.written(ticket))
                case Answer(ticket, status, detail):
                    cast("OnAnswer", ticket)(status, detail)

    def sync(self) -> None:
        """What waits is on disk now, and answered."""
        if self.is_dead or not self._unsynced:
            return None
        failure = self._host.disk.sync_failure()
        if failure is not None:
            return self._host.die_of(failure)
        group, self._unsynced = self._unsynced, []
        self.syncs += 1
        if self._host.disk.is_full:
            refused = [(ticket, record) for record, ticket, is_written in group if not is_written]
            self._perform(self._core.refused(refused, DISK_FULL))
            group = [item for item in group if item[2]]
        with self.answers:
            for record, ticket, was_answered in group:
                self._store(record)
                self._perform(self._core.on_disk(record, None if was_answered else ticket))
                if record.last_add_confirmed is not None and record.ledger_id in self._heard:
                    self._heard[record.ledger_id].set()
        return None

    def _store(self, record: Record) -> None:
        self._host.disk.records.append(record)
        if record.columns is not None:
            watched = self._host.watch[record.ledger_id]
            watched.stored(self._host.ref, record.columns, recovery=record.recovery)

    def die(self, keeps: float) -> None:
        """Power is lost: of what was not synced the first part survives, a share `keeps` of it."""
        self.is_dead = True
        survive = min(len(self._unsynced), int(keeps * (len(self._unsynced) + 1)))
        self._site.world.note("%s dies, %s of %s survive", self._host.name, survive, len(self._unsynced))
        for record, _, _ in self._unsynced[:survive]:
            self._store(record)


def _known(state: LedgerState) -> Status:
    return Status.OK if state.known else Status.NO_SUCH_LEDGER
