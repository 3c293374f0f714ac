"""What of one acceptor outlives its processes: its records, as the metadata keeps them, and its ledgers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage
from metadata.records.journal_store import VersionedSegment, VersionedState
from metadata.version import Version
from qjm_compat.acceptor.copying import SegmentContent, _copy_batches
from qjm_compat.acceptor.programs import state_transitions
from qjm_compat.acceptor.programs.acceptor_effects import (
    Copied,
    CopySegment,
    CreateLedger,
    DeleteFinalized,
    DropLedger,
    Effect,
    EndLedger,
    LedgerEnd,
    ListFinalized,
    LookAtLedger,
    PutFinalized,
    ReadFinalized,
    ReadState,
    SwapState,
)
from qjm_compat.batch import Batch
from qjm_compat.errors import JournalUnavailable, SegmentUnreadable
from tests.simulation.engine.chance import Stream

from .ledgers import Ledger
from .probes import JournalProbe
from .site import Site
from .synchronous import Given, each, finished

Call = object
"""Whoever performs an effect: a ledger that it makes and never tells of is left over by it."""


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """Where a segment's edits are."""

    ledger: Ledger
    layout_version: int
    in_progress: bool


class Disk:
    """One acceptor's, shared by all processes that serve it."""

    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        self.state: VersionedState | None = None
        self.finalized: dict[int, VersionedSegment] = {}
        self.ledgers: dict[int, Ledger] = {}
        self.peers: Mapping[str, Disk] = {}
        self.is_lost = False
        self._site = site
        self._checks = site.checks
        self._saved: Stream = site.stream(f"saved {name}")
        self._revision = 0
        self._performers: dict[type[Effect], Callable[[Any, Call], Any]] = {
            ReadState: lambda effect, call: self.state,
            SwapState: self._swap,
            ReadFinalized: lambda effect, call: self.finalized.get(effect.start_txid),
            PutFinalized: self._put,
            ListFinalized: lambda effect, call: tuple(self.finalized[n] for n in sorted(self.finalized)),
            DeleteFinalized: self._delete,
            CreateLedger: lambda effect, call: self.new_ledger(call).ledger_id,
            EndLedger: self._end,
            LookAtLedger: lambda effect, call: self._ledger(effect.ledger_id).look(),
            DropLedger: self._drop,
            CopySegment: self._copy,
        }

    def perform(self, effect: Effect, call: Call) -> Any:
        """The outcome of one effect, at once. Raises JournalError as the real thing does."""
        if self.is_lost:
            raise JournalUnavailable(f"{self.name} is lost")
        return self._performers[type(effect)](effect, call)

    def segment(self, start_txid: int) -> FoundSegment | None:
        """What a reader finds under a start, as `Journal.read_segment` looks it up."""
        if self.state is None:
            return None
        segment = state_transitions.segment_at(self.state.state, start_txid)
        if segment is not None:
            ledger = self._ledger(segment.ledger_id)
            return FoundSegment(ledger, segment.layout_version, not segment.finalized)
        found = self.finalized.get(start_txid)
        if found is None or not self.state.state.shows(found.segment):
            return None
        return FoundSegment(self._ledger(found.segment.ledger_id), found.segment.layout_version, False)

    def batches(self, start_txid: int, from_txid: int) -> tuple[FoundSegment, list[Batch]]:
        """The batches on disk from the one that holds `from_txid` on. Raises SegmentUnreadable."""
        found = None if self.is_lost else self.segment(start_txid)
        if found is None:
            raise SegmentUnreadable(f"{self.name}: no edit log found starting at txid {start_txid}")
        return found, [batch for batch in found.ledger.batches if batch.last_txid >= from_txid]

    def lose(self) -> None:
        """Nothing of it is there any more, and what is on its way gets nowhere."""
        self.is_lost = True
        for ledger in self.ledgers.values():
            ledger.is_broken = ledger.is_closed = True

    def format(self, storage: JournalStorage) -> None:
        """A journal that is new."""
        self.perform(SwapState(JournalState(storage=storage), None), None)

    def new_ledger(self, call: Call) -> Ledger:
        ledger = Ledger(len(self.ledgers) + 1, call)
        self.ledgers[ledger.ledger_id] = ledger
        return ledger

    # --- the effects that change something ------------------------------------------------------------

    def _swap(self, effect: SwapState, call: Call) -> VersionedState | None:
        before = self.state
        if effect.version != (before.version if before is not None else None):
            self._site.reached(JournalProbe.SWAP_LOST)
            return None
        self._revision += 1
        self.state = VersionedState(effect.state, Version(self._revision))
        old = before.state if before is not None else JournalState()
        if old.segments is not effect.state.segments:
            self._note_replaced(old, effect.state)
        self._checks.state_changed(self, old, effect.state)
        return self.state

    def _note_replaced(self, old: JournalState, new: JournalState) -> None:
        """The rare paths that only a change of segments shows."""
        for segment in new.segments:
            before = state_transitions.segment_at(old, segment.start_txid)
            if before is None or before.ledger_id == segment.ledger_id or before.end_txid is None:
                continue
            if segment.end_txid is None:
                self._site.reached(JournalProbe.RESTARTED_SEGMENT)
            elif segment.end_txid < before.end_txid:
                self._site.reached(JournalProbe.SHORTENED)
            if segment.end_txid is not None and segment.writer_epoch != before.writer_epoch:
                self._site.reached(JournalProbe.COPIED_OVER)

    def _put(self, effect: PutFinalized, call: Call) -> bool:
        found = self.finalized.get(effect.segment.start_txid)
        if effect.version != (found.version if found is not None else None):
            return False
        self._revision += 1
        self.finalized[effect.segment.start_txid] = VersionedSegment(effect.segment, Version(self._revision))
        self._checks.segment_stored(self, effect.segment)
        return True

    def _delete(self, effect: DeleteFinalized, call: Call) -> None:
        start = effect.found.segment.start_txid
        if self.finalized.get(start) == effect.found:
            del self.finalized[start]
            self._checks.segment_deleted(self, effect.found.segment)

    def _end(self, effect: EndLedger, call: Call) -> LedgerEnd:
        ledger = self._ledger(effect.ledger_id)
        keep = self._saved.below(len(ledger.pending) + 1) if ledger.pending else 0
        if not ledger.is_closed and ledger.pending:
            self._site.reached(JournalProbe.BATCH_SAVED if keep else JournalProbe.BATCH_LOST)
        end = ledger.end(keep)
        if end.end_txid is None:
            self._site.reached(JournalProbe.EMPTY_SEGMENT)
        return end

    def _drop(self, effect: DropLedger, call: Call) -> None:
        ledger = self.ledgers.get(effect.ledger_id)
        if ledger is not None and not ledger.is_dropped:
            ledger.is_dropped = ledger.is_closed = True
            self._checks.ledger_dropped(self, effect.ledger_id)

    def _copy(self, effect: CopySegment, call: Call) -> Copied:
        """The product's own copying, which verifies what it reads."""
        found, batches = self.peers[effect.source].batches(effect.start_txid, effect.start_txid)
        content = SegmentContent(found.layout_version, found.in_progress, each(batches))
        given = Given()
        finished(_copy_batches(content, given, 0, effect))  # type: ignore[arg-type]  # nothing but `append`
        ledger = self.new_ledger(call)
        ledger.batches, ledger.is_closed = given.batches, True
        self._site.reached(JournalProbe.COPIED)
        return Copied(ledger.ledger_id, found.layout_version)

    def _ledger(self, ledger_id: int) -> Ledger:
        ledger = self.ledgers[ledger_id]
        if ledger.is_dropped:
            raise JournalUnavailable(f"there is no ledger {ledger_id} at {self.name}")
        return ledger

    def is_needed(self, segment: FinalizedSegment) -> bool:
        return self.state is not None and self.state.state.needs(segment)
