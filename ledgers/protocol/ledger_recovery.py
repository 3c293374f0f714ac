"""Recovers a ledger whose writer is gone, as a pure machine (rules R2 to R5).

    FENCING  read the LAC of every bookie of the last ensemble, with fencing, until every write set
             has enough answers that the old writer can no longer get an ack quorum
    READING  walk forward from the LAC with fenced reads, from the ensemble recorded at the start;
             entries found are written back to their complete write quorum with the recovery flag
    CLOSING  one compare-and-swap to CLOSED, including the ensemble changes made during recovery

Entries that are written back carry the last-add-confirmed statement that was found while fencing, unchanged (F5). A
bookie counts as lacking an entry only if it says so with its fence durable; a timeout, damage, a wrong digest or limbo
counts for neither side (F11, F12).

Nothing is read before a fenced bookie vouches that the metadata has not gone back to an older copy of itself since the
record was written (W8). A ledger is not closed on the basis of an outdated record: one that names bookies holding more
entries (`also_at`), or one for which a bookie has noted a later state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

from bookie.wire import LacReply, LacStatement, ReadReply, of_payloads
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from metadata.records.notes import fragment_note

from ..errors import LedgerError, LedgerRecoveryFailed, NoSuchLedger
from ..integrity.digest import Digester
from .append_pipeline import AppendPipeline
from .fenced_reads import Copy, EntryVerdict, FencedReads
from .fencing import UNVOUCHED, Fencing, why_held_elsewhere
from .ledger_effects import (
    AppendEffect,
    ChangeRecord,
    FenceLac,
    Finish,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    StartOver,
)
from .quorum import Outcome
from .shortfall import in_doubt
from .striping import Striping

READ_AHEAD_ENTRIES = 4096
"""How many entries bookies are asked to read after the first undecided entry."""

WRITE_BACK_BYTES_MAX = 16 * 1024 * 1024
"""Maximum number of bytes being written back; when it is reached, reading waits."""

WRITE_BACK_BATCH_BYTES = 1024 * 1024
WRITE_BACK_BATCH_ENTRIES = 1024


class Stage(Enum):
    FENCING = "fencing"
    READING = "reading"
    CLOSING = "closing"
    ENDED = "ended"


class Recovery:
    """Recovers one ledger from a record in state IN_RECOVERY. Every method returns effects to perform."""

    def __init__(self, record: LedgerRecord, digester: Digester) -> None:
        assert record.state is LedgerState.IN_RECOVERY
        self.record = record
        self.stage = Stage.FENCING
        self._digester = digester
        self._striping = Striping(record.shape)
        self._last_fragment = record.fragments[-1]  # the last fragment when recovery began (R4)
        self.fencing = Fencing(record, digester)
        self.frozen_lac: LacStatement | None = None
        self._next = self._walked_from = 0
        self._reads: FencedReads | None = None
        self.pipeline: AppendPipeline | None = None
        """Writes entries back, once there are any."""
        self._last_entry: int | None = None

    # --- fencing ------------------------------------------------------------------------------

    def start(self) -> list[RecoveryEffect]:
        """Fences every bookie of the last ensemble."""
        if self.record.also_at:
            return self._fail(why_held_elsewhere(self.record))
        return [FenceLac(n, bookie) for n, bookie in enumerate(self.fencing.bookies)]

    def lac_answered(self, position: int, reply: LacReply) -> list[RecoveryEffect]:
        """Handles a bookie's answer to fencing."""
        self.fencing.answered(position, reply)
        return self._read_if_fenced()

    def lac_failed(self, position: int, why: str) -> list[RecoveryEffect]:
        """Handles the failure of every attempt to fence a bookie."""
        self.fencing.failed(position, why)
        return self._read_if_fenced()

    def _read_if_fenced(self) -> list[RecoveryEffect]:
        if self.fencing.why_older and self.stage is not Stage.CLOSING:
            return self._fail(self.fencing.why_older)
        outcome = self.fencing.outcome()
        if self.stage is not Stage.FENCING or outcome is Outcome.PENDING:
            return []
        if outcome is Outcome.LOST:
            return self._fail(self.fencing.why_lost, is_undecided=True)
        return self._begin_reading() if self.fencing.is_vouched_for else self._fail(UNVOUCHED)

    # --- reading ------------------------------------------------------------------------------

    def _begin_reading(self) -> list[RecoveryEffect]:
        """Reads from max(LAC, first entry of the last fragment − 1) on: earlier fragments are final (F2)."""
        fragment, lac = self._last_fragment, self.fencing.last_add_confirmed
        self.stage, self.frozen_lac = Stage.READING, lac
        self._next, length = fragment.first_entry, fragment.length_before
        if lac is not None and lac.last_entry >= fragment.first_entry - 1:
            self._next, length = lac.last_entry + 1, lac.length_bytes
        self._walked_from = self._next
        self._reads = FencedReads(self._striping, list(map(str, self.fencing.bookies)), self._digester)
        self.pipeline = AppendPipeline(
            self.record, first_entry=self._next, length_bytes=length, recovery=True
        )
        return self._read_more()

    def read_answered(self, position: int, reply: ReadReply) -> list[RecoveryEffect]:
        """Handles a page from a bookie, which read it after its fence had become durable."""
        assert self._reads is not None
        self._reads.answered(position, reply)
        return self._walk()

    def read_failed(self, position: int, why: str) -> list[RecoveryEffect]:
        """Handles the failure of every attempt to read from a bookie."""
        assert self._reads is not None
        self._reads.failed(position, why)
        return self._walk()

    def _read_more(self) -> list[RecoveryEffect]:
        assert self._reads is not None and self.pipeline is not None
        if self.pipeline.pending_bytes > WRITE_BACK_BYTES_MAX:
            return []
        effects: list[RecoveryEffect] = []
        last = self._next + READ_AHEAD_ENTRIES - 1
        for n, replica in enumerate(self._reads.replicas):
            # One page ahead of the walk is enough; a page holds as many entries as its byte limit allows.
            if not (replica.reading or replica.failure or replica.covers(self._next)):
                replica.reading, replica.asked_from = True, self._next
                effects.append(ReadFenced(n, self.fencing.bookies[n], replica.asked_from, last))
        return effects

    def _walk(self) -> list[RecoveryEffect]:
        """Decides entries in order, as far as the answers allow."""
        if self.stage is not Stage.READING or self._last_entry is not None:
            return []
        assert self._reads is not None
        effects: list[RecoveryEffect] = []
        while found := self._present_run():
            effects += self._put_back(found)
        match self._reads.verdict(self._next):
            case EntryVerdict.ABSENT:
                self._last_entry = self._next - 1
                return effects + self._close_if_written_back()
            case EntryVerdict.UNDECIDED:
                said = self._reads.describe(self._next)
                why = f"the answers do not show whether entry {self._next} exists ({said})"
                return effects + self._fail(why, is_undecided=True)
            case _:
                return effects + self._read_more()

    def _present_run(self) -> list[Copy]:
        """Returns verified copies of the next entries, as many as are present without a gap and fit in a batch."""
        assert self._reads is not None
        found: list[Copy] = []
        size = 0
        while len(found) < WRITE_BACK_BATCH_ENTRIES and size < WRITE_BACK_BATCH_BYTES:
            copy = self._reads.copy_of(self._next + len(found))
            if copy is None:
                break
            found.append(copy)
            size += len(copy[0])
        return found

    def _put_back(self, found: list[Copy]) -> list[RecoveryEffect]:
        assert self.pipeline is not None
        first, self._next = self._next, self._next + len(found)
        opened = self.pipeline.start() if first == self._walked_from else []
        columns = of_payloads(
            first, [bytes(payload) for payload, _ in found], b"".join([digest for _, digest in found])
        )
        return self._from_pipeline([*opened, *self.pipeline.append(columns)])

    # --- writing back: events of the pipeline ----------------------------------------------------

    def acked(self, lane: int, through: int) -> list[RecoveryEffect]:
        return self._with_pipeline(lambda pipeline: pipeline.acked(lane, through))

    def lane_failed(self, lane: int, why: str) -> list[RecoveryEffect]:
        return self._with_pipeline(lambda pipeline: pipeline.lane_failed(lane, why))

    def refused(self, lane: int, error: LedgerError) -> list[RecoveryEffect]:
        return self._with_pipeline(lambda pipeline: pipeline.refused(lane, error))

    def replacements(
        self, chosen: Mapping[int, BookieRef], rejected: Mapping[str, str]
    ) -> list[RecoveryEffect]:
        return self._with_pipeline(lambda pipeline: pipeline.replacements(chosen, rejected))

    def retry_replacements(self) -> list[RecoveryEffect]:
        return self._with_pipeline(lambda pipeline: pipeline.retry_replacements())

    def _with_pipeline(self, event: Callable[[AppendPipeline], list[AppendEffect]]) -> list[RecoveryEffect]:
        if self.pipeline is None or self.stage is not Stage.READING:
            return []  # once everything is written back, a failure cannot affect the close in flight
        effects = self._from_pipeline(event(self.pipeline))
        if self.stage is not Stage.READING:
            return effects
        if self._last_entry is not None:
            return effects + self._close_if_written_back()
        return effects + self._read_more()

    def _from_pipeline(self, effects: list[AppendEffect]) -> list[RecoveryEffect]:
        """Passes the pipeline's effects to the shell. If the pipeline failed, adds to its error that entries could not
        be written back."""
        passed: list[RecoveryEffect] = []
        for effect in effects:
            if isinstance(effect, Finish):
                passed += self._fail(f"entries could not be written back: {effect.error}")
            else:
                passed.append(effect)
        return passed

    # --- closing --------------------------------------------------------------------------------

    def _close_if_written_back(self) -> list[RecoveryEffect]:
        """Closes once every recovered entry has its ack quorum, with the fragments as they are now (R4)."""
        pipeline, last = self.pipeline, self._last_entry
        assert pipeline is not None and last is not None
        if self.stage is not Stage.READING or pipeline.last_add_confirmed < last:
            return []
        self.stage = Stage.CLOSING
        first, walked = self._last_fragment.first_entry, self._walked_from
        # For the confirmed entries before the walk, it is unknown which bookies have a copy (rule W6).
        return [ChangeRecord(in_doubt(pipeline.closed_record(), first, walked - 1))]

    def changed(self, record: LedgerRecord) -> list[RecoveryEffect]:
        """Handles the success of the closing compare-and-swap."""
        assert self.stage is Stage.CLOSING
        return self._end(Recovered(record))

    def end_notes(self, closed: LedgerRecord) -> Iterator[tuple[BookieRef, bytes]]:
        """Yields the bookies to notify that the ledger has been closed, each with a note of its fragment. The fragments
        are the last one that the recovery found and those that it created, which no other client knows. A bookie that
        could not be fenced finds out by itself."""
        kept = min(len(self.record.fragments), len(closed.fragments)) - 1
        for fragment in closed.fragments[kept:]:
            note = fragment_note.encode_of(closed, fragment)
            for bookie in fragment.ensemble:
                if bookie in self.fencing.fenced or bookie not in self._last_fragment.ensemble:
                    yield bookie, note

    def conflicted(self, found: LedgerRecord | None) -> list[RecoveryEffect]:
        """Handles a change of the record by another client: adopts the changed record if the ledger is closed in it,
        otherwise starts over from it (R5)."""
        if found is None:
            return self._end(Finish(NoSuchLedger(self.record.ledger_id)))
        return self._end(Recovered(found) if found.is_closed else StartOver(found))

    def change_failed(self, error: LedgerError) -> list[RecoveryEffect]:
        """Ends without knowing whether the close succeeded; the next attempt to open the ledger will find out."""
        return self._end(Finish(error))

    def _fail(self, why: str, *, is_undecided: bool = False) -> list[RecoveryEffect]:
        return self._end(Finish(LedgerRecoveryFailed(self.record.ledger_id, why, is_undecided=is_undecided)))

    def _end(self, effect: RecoveryEffect) -> list[RecoveryEffect]:
        if self.stage is Stage.ENDED:
            return []
        self.stage = Stage.ENDED
        return [effect]
