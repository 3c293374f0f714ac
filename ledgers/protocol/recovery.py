"""Recovers a ledger whose writer is gone, as a pure machine (rules R2 to R5).

    FENCING  read the LAC of every bookie of the last ensemble, with fencing, until every write set
             has so many answers that the old writer can no longer get an ack quorum
    READING  walk forward from the LAC with fenced reads, from the ensemble as it stood at the start;
             what is found is written back to its whole write quorum with the recovery flag
    CLOSING  one compare-and-swap to CLOSED, with the ensemble changes made on the way

Recovery adds carry the statement of last-add-confirmed found while fencing, frozen (F5). A bookie counts as lacking an
entry only by saying so behind a durable fence; a timeout, damage, a wrong digest or limbo count for neither side (F11,
F12).

The record may be older than the ledger (W8): bookies that it does not name in the last ensemble, and that hold the
ledger, are witnesses. A verified copy that one of them has is found like any other; that it lacks one says nothing.
Where one proves an entry of the last fragment, the record is older, and the ensemble's LAC may lie behind entries that
only witnesses have: if one proves more than the ensemble, or holds entries before its LAC (PROBING), the walk begins
with the last fragment. Nothing is closed before an entry that anybody has proven to be confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from bookie.wire import NO_ENTRY, LacReply, LacStatement, ReadReply, Status, of_payloads, status_text
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState

from ..errors import LedgerError, LedgerRecoveryFailed, NoSuchLedger
from ..integrity.digest import Digester
from .append import AppendPipeline
from .effects import (
    AppendEffect,
    ChangeRecord,
    FenceLac,
    Finish,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    StartOver,
)
from .fenced_reads import FencedReads, Verdict
from .proven_end import ProvenEnd, may_be_read, outdates
from .quorum import Outcome
from .striping import Striping

READ_AHEAD_ENTRIES = 4096
"""How far past the first undecided entry bookies are asked to read."""

WRITE_BACK_BYTES_MAX = 16 * 1024 * 1024
"""Entries being written back; past it reading waits."""

WRITE_BACK_BATCH_BYTES = 1024 * 1024
WRITE_BACK_BATCH_ENTRIES = 1024


class Stage(Enum):
    FENCING = "fencing"
    PROBING = "asking witnesses for entries before the ensemble's last-add-confirmed"
    READING = "reading"
    CLOSING = "closing"
    ENDED = "ended"


class Recovery:
    """Recovers one ledger from a record in state IN_RECOVERY. Every method returns effects to perform.

    With `awaits_witnesses` nothing is read before `witnessed`. With `accepts_loss` the ledger is closed where the walk
    ends, whatever is proven (R7); `gives_up` tells whether that gave something up.

    `outdated_by`: witnesses that prove the record to be older than the ledger, and to which entry.
    """

    def __init__(
        self,
        record: LedgerRecord,
        digester: Digester,
        *,
        awaits_witnesses: bool = False,
        accepts_loss: bool = False,
    ) -> None:
        assert record.state is LedgerState.IN_RECOVERY
        self.record = record
        self.stage = Stage.FENCING
        self._digester = digester
        self._striping = Striping(record.shape)
        self._last_fragment = record.fragments[-1]  # as it stood when recovery began (R4)
        self._sources = list(self._last_fragment.ensemble)
        self._awaits_witnesses = awaits_witnesses
        self._accepts_loss = accepts_loss
        self.gives_up = False
        self.outdated_by: dict[BookieRef, int] = {}
        self.proven = ProvenEnd(digester)
        self._probed: set[int] = set()
        self._whole_fragment = False
        self._fenced: set[int] = set()
        self._failed: dict[int, str] = {}
        self.last_add_confirmed: LacStatement | None = None
        self._next = self._walked_from = 0
        self._reads: FencedReads | None = None
        self._write_back: AppendPipeline | None = None
        self._lanes_open = False
        self._last_entry: int | None = None

    @property
    def pipeline(self) -> AppendPipeline | None:
        """The machine that writes entries back, once there is one."""
        return self._write_back

    # --- fencing ------------------------------------------------------------------------------

    def start(self) -> list[RecoveryEffect]:
        """Fences every bookie of the last ensemble."""
        return [FenceLac(n, bookie) for n, bookie in enumerate(self._last_fragment.ensemble)]

    def lac_answered(self, position: int, reply: LacReply) -> list[RecoveryEffect]:
        """A bookie has answered; OK and "no such ledger" come from behind its durable fence.

        A statement with a wrong digest is ignored. The bookie is fenced all the same: the walk starts at the
        highest verified entry, and an earlier start is always safe.
        """
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            return self.lac_failed(position, status_text(reply))
        proven = self.proven.hear(self._sources[position], reply.last_add_confirmed)
        if self.stage is not Stage.FENCING:
            return []
        self._fenced.add(position)
        if proven > self._best_lac():
            self.last_add_confirmed = reply.last_add_confirmed
        return self._read_if_fenced()

    def lac_failed(self, position: int, why: str) -> list[RecoveryEffect]:
        """A bookie could not be fenced, after all tries."""
        if self.stage is not Stage.FENCING:
            return []
        self._failed[position] = why
        return self._read_if_fenced()

    def _best_lac(self) -> int:
        return NO_ENTRY if self.last_add_confirmed is None else self.last_add_confirmed.last_entry

    def _read_if_fenced(self) -> list[RecoveryEffect]:
        match self._striping.coverage.outcome(self._fenced, self._failed):
            case Outcome.PENDING:
                return []
            case Outcome.LOST:
                names = [
                    f"{self._last_fragment.ensemble[n]}: {why}" for n, why in sorted(self._failed.items())
                ]
                return self._fail(f"too few bookies could be fenced ({', '.join(names)})", is_undecided=True)
            case Outcome.WON:
                return [] if self._awaits_witnesses else self._probe()

    def witnessed(self, replies: Mapping[BookieRef, LacReply]) -> list[RecoveryEffect]:
        """What the bookies outside of the last ensemble have answered, as many as could be asked.

        Those that hold the ledger are read from, which fences them.
        """
        self._awaits_witnesses = False
        for bookie, reply in replies.items():
            proven = self.proven.hear(bookie, reply.last_add_confirmed)
            if outdates(self.record, proven):
                self.outdated_by[bookie] = proven
            if may_be_read(self.record, reply):
                self._sources.append(bookie)
        return self._read_if_fenced() if self.stage is Stage.FENCING else []

    # --- reading ------------------------------------------------------------------------------

    def _probe(self) -> list[RecoveryEffect]:
        """Asks the witnesses that outdate the record for what they hold before the ensemble's last-add-confirmed.

        In a ledger whose record is not older there may be such witnesses, too: bookies to which a recovery wrote back
        that did not come to its end. They hold nothing before the LAC with which it began. One that proves more than
        the ensemble is no such bookie: nothing need be asked.
        """
        first, lac = self._last_fragment.first_entry, self._best_lac()
        if any(proven > lac for proven in self.outdated_by.values()):
            self._whole_fragment = True
            return self._begin_reading()
        witnesses = range(len(self._last_fragment.ensemble), len(self._sources))
        self._probed = {n for n in witnesses if lac >= first and self._sources[n] in self.outdated_by}
        if not self._probed:
            return self._begin_reading()
        self.stage = Stage.PROBING
        return [ReadFenced(n, self._sources[n], first, lac) for n in sorted(self._probed)]

    def _probe_ended(self, position: int, *, holds_some: bool) -> list[RecoveryEffect]:
        self._probed.discard(position)
        self._whole_fragment |= holds_some
        return [] if self._probed else self._begin_reading()

    def _begin_reading(self) -> list[RecoveryEffect]:
        """From max(LAC, first entry of the last fragment − 1) on: earlier fragments are final (F2).

        Where a witness holds entries before that, the whole last fragment: who told the LAC may have left the ensemble,
        and come back.
        """
        fragment, lac = self._last_fragment, self.last_add_confirmed
        self.stage = Stage.READING
        known = NO_ENTRY if self._whole_fragment else self._best_lac()
        self._next = self._walked_from = max(known, fragment.first_entry - 1) + 1
        length = fragment.length_before
        if lac is not None and lac.last_entry == self._next - 1:
            length = lac.length_bytes
        names = tuple(str(bookie) for bookie in fragment.ensemble)
        self._reads = FencedReads(self._striping, names, self._next, self._digester)
        for witness in self._sources[len(names) :]:
            self._reads.add_witness(str(witness), self._next)
        self._write_back = AppendPipeline(
            self.record, first_entry=self._next, length_bytes=length, recovery=True
        )
        return self._read_more()

    def read_answered(self, position: int, reply: ReadReply) -> list[RecoveryEffect]:
        """A page from a bookie, read behind its durable fence."""
        bookie = self._sources[position]
        proven = self.proven.hear(bookie, reply.last_add_confirmed)
        if self.stage is Stage.PROBING:
            has_some = bool(len(reply.columns) or reply.damaged) or reply.covered_through < self._best_lac()
            return self._probe_ended(position, holds_some=has_some)
        is_witness = position >= len(self._last_fragment.ensemble)
        if is_witness and bookie not in self.outdated_by and outdates(self.record, proven):
            return self._end(StartOver(self.record))  # its writer went on before it was fenced here
        assert self._reads is not None
        self._reads.answered(position, reply)
        return self._walk()

    def read_failed(self, position: int, why: str) -> list[RecoveryEffect]:
        """A bookie could not be read, after all tries."""
        if self.stage is Stage.PROBING:
            return self._probe_ended(position, holds_some=True)  # for all that is known
        assert self._reads is not None
        self._reads.failed(position, why)
        return self._walk()

    def _read_more(self) -> list[RecoveryEffect]:
        assert self._reads is not None and self._write_back is not None
        if self._write_back.pending_bytes > WRITE_BACK_BYTES_MAX:
            return []
        effects: list[RecoveryEffect] = []
        last = self._next + READ_AHEAD_ENTRIES - 1
        for n, replica in enumerate(self._reads.replicas):
            # One page ahead of the walk is enough; a page reaches as far as its bytes allow.
            if not replica.reading and not replica.failure and replica.covered_through < self._next:
                replica.reading, replica.asked_from = True, self._next
                effects.append(ReadFenced(n, self._sources[n], replica.asked_from, last))
        return effects

    def _walk(self) -> list[RecoveryEffect]:
        """Decides entries in order, as far as the answers go."""
        if self.stage is not Stage.READING or self._last_entry is not None:
            return []
        assert self._reads is not None
        effects: list[RecoveryEffect] = []
        while found := self._present_run():
            effects += self._put_back(found)
        self._reads.forget_before(self._next)
        is_proven = self._next <= self.proven.last_entry
        match self._reads.verdict(self._next, hears_all=is_proven or bool(self.outdated_by)):
            case Verdict.ABSENT:
                return effects + self._end_before(self._next)
            case Verdict.UNDECIDED if is_proven or self._accepts_loss:
                self.gives_up = self._accepts_loss
                return effects + self._end_before(self._next)
            case Verdict.UNDECIDED:
                said = self._reads.describe(self._next)
                why = f"nobody can tell whether entry {self._next} exists ({said})"
                return effects + self._fail(why, is_undecided=True)
            case _:
                return effects + self._read_more()

    def _present_run(self) -> list[tuple[bytes, bytes]]:
        """Verified copies of the next entries, as many as are present without a gap and fit a batch."""
        assert self._reads is not None
        found: list[tuple[bytes, bytes]] = []
        size = 0
        while len(found) < WRITE_BACK_BATCH_ENTRIES and size < WRITE_BACK_BATCH_BYTES:
            copy = self._reads.copy_of(self._next + len(found))
            if copy is None:
                break
            found.append(copy)
            size += len(copy[0])
        return found

    def _put_back(self, found: list[tuple[bytes, bytes]]) -> list[RecoveryEffect]:
        assert self._write_back is not None
        first = self._next
        self._next += len(found)
        opened = [] if self._lanes_open else self._write_back.start()
        self._lanes_open = True
        columns = of_payloads(
            first, [payload for payload, _ in found], b"".join([digest for _, digest in found])
        )
        return self._from_pipeline([*opened, *self._write_back.append(columns)])

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
        if self._write_back is None or self.stage is not Stage.READING:
            return []  # once all is written back, no failure can affect the close in flight
        effects = self._from_pipeline(event(self._write_back))
        if self.stage is not Stage.READING:
            return effects
        if self._last_entry is not None:
            return effects + self._close_if_written_back()
        return effects + self._read_more()

    def _from_pipeline(self, effects: list[AppendEffect]) -> list[RecoveryEffect]:
        """Passes the pipeline's effects to the shell, except its failure, which is explained here."""
        passed: list[RecoveryEffect] = []
        for effect in effects:
            if isinstance(effect, Finish):
                passed += self._fail(f"entries could not be written back: {effect.error}")
            else:
                passed.append(effect)
        return passed

    # --- closing --------------------------------------------------------------------------------

    def _end_before(self, entry_id: int) -> list[RecoveryEffect]:
        self._last_entry = entry_id - 1
        return self._close_if_written_back()

    def _close_if_written_back(self) -> list[RecoveryEffect]:
        """Closes once every recovered entry has its ack quorum, with the fragments as they are now (R4)."""
        pipeline, last = self._write_back, self._last_entry
        assert pipeline is not None and last is not None
        if self.stage is not Stage.READING:
            return []
        self.gives_up |= self._accepts_loss and last < self.proven.last_entry
        if last < self.proven.last_entry and not self._accepts_loss:
            return self._fail(self.proven.why_not_at(self.record.ledger_id, last))
        if pipeline.last_add_confirmed < last:
            return []
        self.stage = Stage.CLOSING
        return [ChangeRecord(self._with_doubt(pipeline.closed_record()))]

    def _with_doubt(self, closed: LedgerRecord) -> LedgerRecord:
        """Records copies of confirmed entries before the walk as lacking: an ack quorum has them, not known which (rule
        W6).
        """
        first, last = self._last_fragment.first_entry, self._walked_from - 1
        for n in range(closed.shape.ensemble_size):
            if (held := self._striping.held_between(n, first, last)) is not None:
                closed = closed.with_lacking(n, *held)
        return closed

    def changed(self, record: LedgerRecord) -> list[RecoveryEffect]:
        """The closing compare-and-swap succeeded."""
        assert self.stage is Stage.CLOSING
        return self._end(Recovered(record))

    def conflicted(self, found: LedgerRecord | None) -> list[RecoveryEffect]:
        """Another client changed the record: adopt its close, or start over from its record (R5)."""
        if found is None:
            return self._end(Finish(NoSuchLedger(self.record.ledger_id)))
        return self._end(Recovered(found) if found.is_closed else StartOver(found))

    def change_failed(self, error: LedgerError) -> list[RecoveryEffect]:
        """The outcome of the close stays unknown; the next open of the ledger finds out."""
        return self._end(Finish(error))

    def _fail(self, why: str, *, is_undecided: bool = False) -> list[RecoveryEffect]:
        return self._end(Finish(LedgerRecoveryFailed(self.record.ledger_id, why, is_undecided=is_undecided)))

    def _end(self, effect: RecoveryEffect) -> list[RecoveryEffect]:
        if self.stage is Stage.ENDED:
            return []
        self.stage = Stage.ENDED
        return [effect]
