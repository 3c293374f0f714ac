"""The bookies of a simulated cluster: the product's own rules over a log that loses what was not synced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bookie.index.local_ledger_state import Fence
from bookie.index.local_ledger_state import LocalLedgerState as BookiesView
from bookie.log.format import BookieLogRecord, RecordKind
from bookie.storage.core import Answer, BookieCore, Effect, Write, remember
from bookie.wire import (
    NO_ENTRIES,
    NO_ENTRY,
    Columns,
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
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote, Headline
from metadata.records.notes.record_reconstruction import NotedBy
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import DiskFault, FailSync, Figures, ReadOnly, Rot, Wipe
from tests.simulation.cores.probes import Probe
from tests.simulation.engine.world import World

from .disk import SimulatedDisk
from .node import Node

OnAnswer = Callable[[Status, str], None]

PAGE_ENTRIES_MAX = 6
"""A page ends after so many entries or fewer: what a bound in bytes does."""

DEFERRED_SYNC_SECONDS = 25.0
"""How long a record with deferred sync waits when nothing else needs a sync."""


WAITING_FOR_FENCE_MAX = 64
"""More requests than all clients have under way at once."""


@dataclass(slots=True)
class Unsynced:
    """A record on its way to the disk. No ticket: it was answered when it was written."""

    record: BookieLogRecord
    ticket: object | None
    is_deferred: bool


class SimulatedBookie(Node):
    """The real core over a log of which a crash leaves all that was synced, and perhaps a little more."""

    woken_from_pause = Probe.BOOKIE_PAUSED

    def __init__(
        self,
        world: World,
        ref: BookieRef,
        checker: Checker,
        figures: Figures,
        record: Callable[[], LedgerRecord | None],
    ) -> None:
        super().__init__(world, ref.bookie_id)
        self._record = record
        self.ref = ref
        self.generation = 0
        self.entries: dict[int, tuple[bytes, bytes]] = {}
        self._notes: dict[int, FragmentNote] = {}
        self._checker = checker
        self._disk = SimulatedDisk(world, ref.bookie_id, figures.sync_seconds)
        self._pages = world.stream("page", ref.bookie_id)
        self._unsynced: list[Unsynced] = []
        self._is_writing = False
        self._start()

    def _start(self) -> None:
        self._states: dict[int, BookiesView] = {}
        self.core = BookieCore(self.state_of)
        self._look_at_space()
        for record in self._disk.records:
            remember(self.state_of(record.ledger_id), record)

    def _look_at_space(self) -> None:
        """Read-only while the disk is nearly full, and writable again after it (B4)."""
        self.core.read_only = "nearly full" if self._disk.is_nearly_full else ""

    def state_of(self, ledger_id: int) -> BookiesView:
        state = self._states.get(ledger_id)
        if state is None:
            state = self._states[ledger_id] = BookiesView(ledger_id)
        return state

    @property
    def noted(self) -> list[NotedBy]:
        """What it keeps of the ledger besides entries. Who asks for it waits for all that was admitted before."""
        return [NotedBy(self.ref, note) for note in (*self._notes.values(), *self._admitted())]

    def _admitted(self) -> list[FragmentNote]:
        return [fragment_note.decode(it.record.note) for it in self._unsynced if it.record.note]

    def keep_notes(self, record: LedgerRecord | None) -> None:
        """A round of upkeep, as `bookie.upkeep.collecting.note_updates`: it notes what the metadata says."""
        if record is None or not self.state_of(record.ledger_id).known:
            return
        for one in record.fragments:
            if self.ref in one.ensemble or one.first_entry in self._notes:
                self._keep(FragmentNote.of(record, one))

    def _keep(self, note: FragmentNote) -> None:
        """As `bookie.index.notes_table` does."""
        held = self._notes.get(note.fragment.first_entry)
        if held is None or held.headline.is_older_than(note.headline):
            self._notes[note.fragment.first_entry] = note

    # --- life -----------------------------------------------------------------------------------

    def crash(self, keeps: float = 0.0) -> None:
        if not self.up:
            return
        survive = min(len(self._unsynced), int(keeps * (len(self._unsynced) + 1)))
        self.world.note("%s crashes, %s of %s unsynced survive", self.name, survive, len(self._unsynced))
        if self._unsynced:
            self.world.reached(Probe.UNSYNCED_KEPT if survive else Probe.UNSYNCED_LOST)
        if any(lost.ticket is None for lost in self._unsynced[survive:]):
            self.world.reached(Probe.DEFERRED_LOST)
        for kept in self._unsynced[:survive]:
            self._store(kept.record)
        self._unsynced.clear()
        self._is_writing = False
        self.up = False
        self.generation += 1

    def restart(self) -> None:
        if self.up or self._disk.is_foreign:
            return
        self.world.note("%s restarts as %s", self.name, self.ref.incarnation)
        self.up = True
        self._start()
        fenced = any(state.fence is Fence.DURABLE for state in self._states.values())
        if fenced:
            self.world.reached(Probe.FENCE_KEPT)
        self._checker.restarted(self.ref, fenced=fenced, held=self.entries)

    def damage(self, fault: DiskFault) -> None:
        if isinstance(fault, Wipe):
            self._wipe()
        elif not isinstance(fault, Rot):
            self._disk.damage(fault)
            if isinstance(fault, ReadOnly):
                self._look_at_space()
                self.world.after(fault.seconds, self._look_at_space)
        elif fault.entry_id in self.entries:
            self._disk.rotten[fault.entry_id] = fault.how

    def _wipe(self) -> None:
        """Formatted anew: the same name, nothing on the disk, another incarnation (W7)."""
        self.crash()
        self.world.reached(Probe.WIPED)
        self.ref = BookieRef(self.name, f"{self.ref.incarnation}'")
        self.entries = {}
        self._notes = {}
        self._disk.format()

    def heal(self) -> None:
        self._disk.heal()
        self._look_at_space()
        if self._is_writing:  # the slow write that is under way ends soon
            self._later(self._disk.sync_seconds(), self._write)

    def mount(self, *, foreign: bool) -> None:
        """Another bookie's disk is in this machine, which the directory check refuses; or its own is back."""
        self._disk.is_foreign = foreign

    def check_idle(self) -> None:
        waiting = sum(len(state.waiting_for_fence) for state in self._states.values())
        self._checker.bounded(f"requests left at {self.name}", len(self._unsynced) + waiting, 0)

    # --- requests -------------------------------------------------------------------------------

    def append(self, incarnation: str, frame: Frame, answer: OnAnswer) -> None:
        if self._is_another(incarnation):
            answer(Status.WRONG_INCARNATION, "")
        elif frame.note and self._is_ahead(fragment_note.headline(frame.note)):
            self.world.reached(Probe.FRAGMENT_UNKNOWN)
            answer(Status.FENCED, "the metadata has no such fragment")
        else:
            self._perform(self.core.append(frame, answer))

    def _is_ahead(self, told: Headline) -> bool:
        """As `bookie.serving.lookups.verifiers` does."""
        held, stands = self._notes.get(told.first_entry), self._record()
        is_news = held is None or not told.is_older_than(held.headline)
        return is_news and stands is not None and told.is_ahead_of(stands)

    def append_note(self, incarnation: str, frame: Frame) -> None:
        if not self._is_another(incarnation):
            self._perform(self.core.append_note(frame))

    def last_add_confirmed(self, request: LacRequest, answer: Callable[[LacReply], None]) -> None:
        def serve(status: Status) -> None:
            state = self.state_of(request.ledger_id)
            told = state.last_add_confirmed
            if status is Status.OK:
                self._checker.lac_answered(self.ref, told.last_entry if told else NO_ENTRY)
                status = self._known(state)
            latest = max(self._notes.items())[1].headline if self._notes and request.fence else None
            answer(LacReply(status, told, vouched_since=1, latest=latest))

        self._behind_fence(request, serve)

    def read(self, request: ReadRequest, answer: Callable[[ReadReply], None]) -> None:
        def serve(status: Status) -> None:
            answer(self.page(request) if status is Status.OK else ReadReply(status))

        self._behind_fence(request, serve)

    def _behind_fence(self, request: LacRequest | ReadRequest, serve: Callable[[Status], None]) -> None:
        """Serves the request, behind a fence on disk where it asks for one (R1)."""
        if self._is_another(request.incarnation):
            return serve(Status.WRONG_INCARNATION)
        if not request.fence:
            return serve(Status.OK)
        if not self.state_of(request.ledger_id).known:
            self.world.reached(Probe.FENCED_UNSEEN)

        def fenced(status: Status, _: str) -> None:
            self.world.note("%s is fenced: %s", self.name, status)
            if status is Status.OK:
                self._checker.fence_answered(self.ref)
            serve(status)

        self._perform(self.core.fence(request.ledger_id, fenced))
        waiting = len(self.state_of(request.ledger_id).waiting_for_fence)
        return self._checker.bounded(f"requests at {self.name}", waiting, WAITING_FOR_FENCE_MAX)

    def _is_another(self, incarnation: str) -> bool:
        if incarnation == self.ref.incarnation:
            return False
        self.world.reached(Probe.WRONG_INCARNATION)
        return True

    def page(self, request: ReadRequest) -> ReadReply:
        """Entries from the first on; a bad disk gives errors, damage and wrong bytes, never a false absence."""
        if self._disk.fails_read():
            return ReadReply(Status.IO_ERROR)
        covered = min(request.last_entry, request.first_entry + self._pages.below(PAGE_ENTRIES_MAX))
        found: list[Columns] = []
        damaged: list[EntryRange] = []
        for entry_id in range(request.first_entry, covered + 1):
            if entry_id not in self.entries:
                continue
            copy = self._disk.read_copy(entry_id, self.entries)
            if copy is None:
                damaged.append(EntryRange(entry_id, entry_id))
            else:
                found.append(of_payloads(entry_id, [copy[0]], copy[1]))
        state = self.state_of(request.ledger_id)
        columns = merge(found) if found else NO_ENTRIES
        self.world.note(
            "%s gives %s entries of %s to %s, damaged %s",
            self.name,
            len(columns),
            request.first_entry,
            covered,
            len(damaged),
        )
        return ReadReply(self._known(state), columns, covered, tuple(damaged), state.last_add_confirmed)

    def _known(self, state: BookiesView) -> Status:
        return Status.OK if state.known else Status.NO_SUCH_LEDGER

    # --- the log --------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket, deferred):
                    self._unsynced.append(Unsynced(record, ticket, deferred))
                    if not self._is_writing:
                        self._is_writing = True
                        self._later(self._disk.sync_seconds(), self._write)
                case Answer(ticket, status, detail):
                    assert callable(ticket)
                    self._note_refusal(status)
                    ticket(status, detail)

    def _note_refusal(self, status: Status) -> None:
        if status is Status.FENCED:
            self.world.reached(Probe.ADD_REFUSED)
        elif status is Status.READ_ONLY and self._disk.is_nearly_full:
            self.world.reached(Probe.READ_ONLY)

    def _later(self, seconds: float, step: Callable[[], None]) -> None:
        """A step of the disk, unless the process has died meanwhile."""
        generation = self.generation

        def take() -> None:
            if generation == self.generation:
                step()

        self.world.after(seconds, lambda: self.deliver(take))

    def _write(self) -> None:
        """What has gathered is in the log; one record that is not deferred has all of it synced."""
        self._is_writing = False
        if not self._unsynced:
            return None
        if not all(waiting.is_deferred for waiting in self._unsynced):
            return self._sync()
        self.world.reached(Probe.ACCEPTED)
        for waiting in self._unsynced:
            if waiting.ticket is not None:
                ticket, waiting.ticket = waiting.ticket, None
                self._perform(self.core.written(ticket))
        self._later(DEFERRED_SYNC_SECONDS, self._sync)
        return None

    def _sync(self) -> None:
        if not self._unsynced:
            return None
        failure = self._disk.sync_failure()
        if failure is not None:
            return self._die_of(failure)
        group, self._unsynced = self._unsynced, []
        if self._disk.is_full:
            group = self._refuse(group)
        for synced in group:
            self._store(synced.record)
            self._perform(self.core.on_disk(synced.record, synced.ticket))
        return None

    def _die_of(self, failure: FailSync) -> None:
        """A failed sync is never tried again: the process ends, and nothing of it is acknowledged (B1)."""
        self.world.reached(Probe.SYNC_FAILED)
        self.crash(failure.keeps)
        self.world.after(failure.seconds, self.restart)

    def _refuse(self, group: list[Unsynced]) -> list[Unsynced]:
        """Nothing that is not written yet goes into the log; returns what was written before, and is synced."""
        self.world.note("%s is full", self.name)
        refused = [(waiting.ticket, waiting.record) for waiting in group if waiting.ticket is not None]
        fences = any(record.kind is RecordKind.FENCE for _, record in refused)
        self.world.reached(Probe.DISK_FULL_FENCE if fences else Probe.DISK_FULL)
        self._perform(self.core.refused(refused, "disk full"))
        return [waiting for waiting in group if waiting.ticket is None]

    def _store(self, record: BookieLogRecord) -> None:
        self._disk.records.append(record)
        if record.note:
            self._keep(fragment_note.decode(record.note))
        if record.columns is None:
            return
        if record.recovery and self._disk.is_nearly_full:
            self.world.reached(Probe.READ_ONLY_RECOVERY)
        self._checker.stored(self.ref, record.columns, recovery=record.recovery)
        if not len(record.columns):
            self.world.reached(Probe.EXPLICIT_LAC)
        for entry_id, payload, digest in record.columns.rows():
            self.entries[entry_id] = (bytes(payload), bytes(digest))
