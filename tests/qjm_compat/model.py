"""Acceptors whose disks are dictionaries: the product's own programs, on the simplest thing that can be a ledger.

`ModelDisk` performs what programs ask for, in one step each; `ModelAcceptor` runs a call to its end. It passes the
contract of acceptors in `tests/contracts/journal_acceptor.py`, like the product's own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import VersionedSegment, VersionedState
from metadata.version import Version
from qjm_compat.acceptor.copying import Pace, SegmentContent, SegmentReader, check_writer, checked_part
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
    Program,
    PutFinalized,
    ReadFinalized,
    ReadState,
    SwapState,
)
from qjm_compat.acceptor.programs.acceptor_memory import Memory
from qjm_compat.acceptor.programs.edit_log_manifest import place_of
from qjm_compat.acceptor.programs.machine import program
from qjm_compat.acceptor.programs.segment_programs import admit_edits
from qjm_compat.acceptor.programs.sync_programs import (
    SegmentsHeld,
    SyncOutcome,
    make_room_for_another,
    segments_held,
    take_finalized,
)
from qjm_compat.batch import Batch
from qjm_compat.edits import EditLogError, check_batch
from qjm_compat.errors import (
    BadRequest,
    EditsNotCached,
    JournalError,
    JournalUnavailable,
    NewerTxid,
    SegmentUnreadable,
    StaleEpoch,
)
from qjm_compat.requests import (
    BatchDone,
    GetJournaledEdits,
    JournaledEdits,
    R,
    RemoteEditLog,
    Request,
    SendEdits,
)


@dataclass
class ModelLedger:
    """Batches in order, until it is closed."""

    batches: list[Batch] = field(default_factory=list)
    is_closed: bool = False

    @property
    def end(self) -> LedgerEnd:
        if not self.batches:
            return LedgerEnd(None)
        return LedgerEnd(self.batches[-1].last_txid, self.batches[-1].committed_txid)


class ModelDisk:
    """What of one acceptor outlives its process: its records, and its ledgers."""

    def __init__(self) -> None:
        self.state: VersionedState | None = None
        self.finalized: dict[int, VersionedSegment] = {}
        self.ledgers: dict[int, ModelLedger] = {}
        self._revision = 0
        self._ledger_ids = 0

    def perform(self, effect: Effect, peers: Mapping[str, ModelDisk]) -> Any:
        """The outcome of one effect. Raises JournalError as the real thing does."""
        match effect:
            case ReadState():
                return self.state
            case SwapState(state, version):
                return self._swap(state, version)
            case ReadFinalized(start_txid):
                return self.finalized.get(start_txid)
            case PutFinalized(segment, version):
                return self._put(segment, version)
            case ListFinalized():
                return tuple(self.finalized[start] for start in sorted(self.finalized))
            case DeleteFinalized(found):
                if self.finalized.get(found.segment.start_txid) == found:
                    del self.finalized[found.segment.start_txid]
                return None
            case CreateLedger():
                self._ledger_ids += 1
                self.ledgers[self._ledger_ids] = ModelLedger()
                return self._ledger_ids
            case EndLedger(ledger_id):
                ledger = self._ledger(ledger_id)
                ledger.is_closed = True
                return ledger.end
            case LookAtLedger(ledger_id):
                return self._ledger(ledger_id).end
            case DropLedger(ledger_id):
                self.ledgers.pop(ledger_id, None)
                return None
            case CopySegment(source):
                return self._copy(peers[source], effect)

    def append(self, ledger_id: int, batch: Batch) -> None:
        """Raises StaleEpoch where the ledger was closed by somebody else."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None or ledger.is_closed:
            raise StaleEpoch(f"the ledger {ledger_id} was fenced by a later writer")
        ledger.batches.append(batch)

    def segment(self, start_txid: int) -> tuple[int, int, bool] | None:
        """Ledger, layout and whether it is in progress, of the segment that begins there."""
        if self.state is None:
            return None
        segment = state_transitions.segment_at(self.state.state, start_txid)
        if segment is not None:
            return segment.ledger_id, segment.layout_version, not segment.finalized
        found = self.finalized.get(start_txid)
        if found is None or not self.state.state.shows(found.segment):
            return None
        return found.segment.ledger_id, found.segment.layout_version, False

    def finalize_without_a_record(self, start_txid: int, end_txid: int) -> None:
        """What a process leaves that dies between the two steps of a finalization."""
        assert self.state is not None
        segment = state_transitions.segment_at(self.state.state, start_txid)
        assert segment is not None
        self._ledger(segment.ledger_id).is_closed = True
        self._swap(state_transitions.finalized(self.state.state, start_txid, end_txid), self.state.version)

    def lose_ledger(self, start_txid: int) -> None:
        """Somebody deletes the ledger of a segment."""
        found = self.segment(start_txid)
        assert found is not None
        del self.ledgers[found[0]]

    def _swap(self, state: JournalState, version: int | None) -> VersionedState | None:
        if version != (self.state.version if self.state is not None else None):
            return None
        self._revision += 1
        self.state = VersionedState(state, Version(self._revision))
        return self.state

    def _put(self, segment: FinalizedSegment, version: int | None) -> bool:
        found = self.finalized.get(segment.start_txid)
        if version != (found.version if found is not None else None):
            return False
        self._revision += 1
        self.finalized[segment.start_txid] = VersionedSegment(segment, Version(self._revision))
        return True

    def _ledger(self, ledger_id: int) -> ModelLedger:
        if ledger_id not in self.ledgers:
            raise JournalUnavailable(f"there is no ledger {ledger_id}")
        return self.ledgers[ledger_id]

    def _copy(self, source: ModelDisk, wanted: CopySegment) -> Copied:
        found = source.segment(wanted.start_txid)
        if found is None:
            raise SegmentUnreadable(f"{wanted.source} has no segment {wanted.start_txid}")
        copy = ModelLedger(is_closed=True)
        next_txid = wanted.start_txid
        for batch in source._ledger(found[0]).batches:
            if next_txid <= wanted.end_txid:
                check_writer(batch, wanted)
                part = checked_part(batch, next_txid, wanted.end_txid)
                copy.batches.append(part)
                next_txid = part.last_txid + 1
        if next_txid <= wanted.end_txid:
            raise SegmentUnreadable(
                f"{wanted.source} gives segment {wanted.start_txid} up to {next_txid - 1} only"
            )
        self._ledger_ids += 1
        self.ledgers[self._ledger_ids] = copy
        return Copied(self._ledger_ids, found[1])


class ModelAcceptor:
    """One process that serves an acceptor: what it remembers is lost with it, its disk is not."""

    def __init__(self, journal_id: str, name: str, disks: Mapping[str, ModelDisk]) -> None:
        self.name = name
        self.journal_id = journal_id
        self.disk = disks[name]
        self.memory = Memory(journal_id)
        self._disks = disks

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        """Nothing is faster than `call` here."""
        return False

    async def call(self, request: Request[R]) -> R:
        return self.answer(request)

    async def close(self) -> None:
        self.memory.open = None

    async def segments_held(self) -> SegmentsHeld:
        return self.run(segments_held(self.memory))

    async def make_room_for_another(self, epochs_above: int) -> SegmentsHeld:
        return self.run(make_room_for_another(self.memory, epochs_above))

    async def purged_below(self) -> int:
        return self.disk.state.state.purged_below if self.disk.state is not None else 0

    async def take_finalized(
        self,
        wanted: RemoteEditLog,
        source: SegmentReader,
        pace: Pace,
        is_wanted: Callable[[], Awaitable[bool]],
    ) -> SyncOutcome:
        """As `Journal.take_finalized`: what is copied is read from the source's own disk, in one step."""
        taken = self.run(take_finalized(self.memory, wanted, None))
        if taken is not SyncOutcome.LACKING:
            return taken
        effect = CopySegment(
            getattr(source, "name", ""), wanted.start_txid, wanted.end_txid, wanted.writer_epoch
        )
        copy: Copied = self.perform(effect)
        await pace(sum(len(batch.records) for batch in self.disk.ledgers[copy.ledger_id].batches))
        if await is_wanted():
            return self.run(take_finalized(self.memory, wanted, copy))
        self.perform(DropLedger(copy.ledger_id))
        return SyncOutcome.PURGED

    def answer(self, request: Request[R]) -> R:
        """The whole call at once."""
        if isinstance(request, SendEdits):
            return cast("R", self._send_edits(request))
        if isinstance(request, GetJournaledEdits):
            return cast("R", self._journaled_edits(request))
        return self.run(program(self.memory, request))

    def run(self, steps: Program[R]) -> R:
        """A program from its first effect to its answer."""
        try:
            effect = next(steps)
            while True:
                try:
                    outcome = self.perform(effect)
                except JournalError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(outcome)
        except StopIteration as end:
            return cast("R", end.value)

    def perform(self, effect: Effect) -> Any:
        """The outcome of one effect."""
        return self.disk.perform(effect, self._disks)

    def _send_edits(self, request: SendEdits) -> None:
        segment = self.run(admit_edits(self.memory, request))
        if segment is None:
            return
        try:
            check_batch(request.records, request.first_txid, request.num_txns)
        except EditLogError as error:
            raise BadRequest(f"the batch of txid {request.first_txid} is refused: {error}") from error
        batch = Batch(
            request.first_txid,
            request.num_txns,
            request.records,
            self.memory.committed_txid,
            request.info.epoch,
        )
        try:
            self.disk.append(segment.ledger_id, batch)
        except StaleEpoch:
            self.memory.open = None
            raise
        segment.next_txid = batch.last_txid + 1
        segment.durable_txid = batch.last_txid

    def _journaled_edits(self, request: GetJournaledEdits) -> JournaledEdits:
        since = request.since_txid
        place = self.run(place_of(self.memory, since))
        if since == place.highest_txid + 1:
            return JournaledEdits(0)
        if since > place.highest_txid:
            raise NewerTxid(
                f"Highest txn ID available in the journal is {place.highest_txid}, "
                f"but requested txns starting at {since}."
            )
        if place.log is None:
            raise EditsNotCached(since, 0)
        last = min(place.log.end_txid, since + request.max_txns - 1)
        found = self.disk.segment(place.log.start_txid)
        assert found is not None
        records: list[bytes] = []
        next_txid = since
        for batch in self.disk.ledgers[found[0]].batches:
            if batch.last_txid >= next_txid and next_txid <= last:
                part = checked_part(replace(batch), next_txid, last)
                records.append(part.records)
                next_txid = part.last_txid + 1
        return JournaledEdits(
            last - since + 1,
            found[1],
            b"".join(records),
            place.log.writer_epoch,
            not place.log.in_progress,
            place.log.accepted_in_epoch,
        )

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        found = self.disk.segment(start_txid)
        if found is None or (found[2] and not in_progress_ok):
            raise SegmentUnreadable(f"No edit log found starting at txid {start_txid}")
        batches = [b for b in self.disk.ledgers[found[0]].batches if b.last_txid >= from_txid]
        return SegmentContent(found[1], found[2], _each(batches))


async def _each(batches: list[Batch]) -> AsyncGenerator[Batch, None]:
    for batch in batches:
        yield batch
