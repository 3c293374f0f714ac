"""The promises of a journal, watched from outside at every change (J1-J6).

J1 epochs are unique and promises never go back; J2 a txid is acknowledged with one content only; J3 a recovery ends
behind everything acknowledged; J4 what is finalized never changes, and is the same everywhere; J5 a segment begins
where a quorum has finalized the one before; J6 what a reader saw stays. Besides: no call breaks the caller's
contract, a ledger that is referred to is there, and a promise ends the ledgers of earlier writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metadata.records.journal_record import FinalizedSegment, JournalState, SegmentRecord
from qjm_compat.acceptor.programs.state_transitions import kept_ledgers
from qjm_compat.errors import BadRequest, QuorumFailed, RuleViolated
from tests.simulation.engine.world import Violation

from .edits import edits_in, frame_in

if TYPE_CHECKING:
    from .disk import Disk


@dataclass(slots=True)
class Known:
    """What nobody may contradict any more. A rollback brings an earlier one back."""

    acked: dict[int, bytes] = field(default_factory=dict)
    acked_by: dict[int, int] = field(default_factory=dict)
    seen: dict[int, bytes] = field(default_factory=dict)
    finalized: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    last_acked_of: dict[int, int] = field(default_factory=dict)
    last_seen_of: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Known:
        return Known(*(dict(getattr(self, name)) for name in self.__slots__))

    def without(self, from_txid: int) -> Known:
        """As if nothing had ever been written from there on."""

        kept = ({t: v for t, v in getattr(self, name).items() if t < from_txid} for name in self.__slots__)
        return Known(*kept)


class Checks:
    """`acked_max` by epoch: the highest txid each writer was told to be on a quorum."""

    def __init__(self, acceptors: int) -> None:
        self.known = Known()
        self.purged_below = 0
        self.acceptors = acceptors
        self.is_resting = False
        self._epochs: set[int] = set()
        self._ends: dict[int, set[str]] = {}

    # --- writers ----------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        return max(self._epochs, default=0)

    def became_writer(self, epoch: int, after: int = 0) -> None:
        """It asked when a writer had that epoch."""
        if epoch in self._epochs or epoch <= after:
            raise Violation("J1", f"epoch {epoch} was given, and {self.last_epoch} was there before")
        self._epochs.add(epoch)

    def acknowledged(self, epoch: int, segment: int, first_txid: int, records: bytes) -> None:
        """A quorum has said so."""
        known = self.known
        for txid, one in edits_in(first_txid, records):
            if txid in known.acked:
                raise Violation("J2", f"txid {txid} is acknowledged twice, to epoch {epoch} at last")
            self._compare("J2", txid, one)
            known.acked[txid], known.acked_by[txid] = one, epoch
            known.last_acked_of[segment] = max(known.last_acked_of.get(segment, 0), txid)

    def recovered(self, epoch: int, end_txid: int) -> None:
        """A new writer goes on behind `end_txid`."""
        for txid, by in self.known.acked_by.items():
            if txid > end_txid and by < epoch:
                raise Violation("J3", f"epoch {epoch} goes on behind {end_txid}, and {txid} was acknowledged")

    def failed(self, error: Exception) -> None:
        """An error that no schedule without the loss of a disk may lead to."""
        errors = error.errors.values() if isinstance(error, QuorumFailed) else (error,)
        for one in errors:
            if isinstance(one, RuleViolated | BadRequest):
                raise Violation("contract", f"{type(one).__name__}: {one}")

    # --- readers ----------------------------------------------------------------------------------

    def saw(self, start_txid: int, first_txid: int, records: bytes) -> None:
        """A reader was given these edits as durable."""
        known = self.known
        for txid, one in edits_in(first_txid, records):
            self._compare("J6", txid, one)
            known.seen[txid] = one
            if start_txid:
                known.last_seen_of[start_txid] = max(known.last_seen_of.get(start_txid, 0), txid)

    def _compare(self, rule: str, txid: int, one: bytes) -> None:
        for found in (self.known.acked, self.known.seen):
            if txid in found and found[txid] != one:
                raise Violation(rule, f"txid {txid} is not what it was: {one!r} instead of {found[txid]!r}")

    # --- acceptors --------------------------------------------------------------------------------

    def state_changed(self, disk: Disk, old: JournalState, new: JournalState) -> None:
        """One swap stands."""
        if new.last_promised_epoch < old.last_promised_epoch:
            raise Violation("J1", f"{disk.name} goes back from {old.last_promised_epoch}")
        if new.segments is old.segments and new.previous is old.previous:
            return
        before = {s.ledger_id: s for s in old.segments}
        for segment in new.segments:
            if before.get(segment.ledger_id) != segment:
                self._segment_changed(disk, segment, before.get(segment.ledger_id))
                self._not_begun_again(disk, segment, old)
        if not self.is_resting:
            self._kept(disk, old, new)

    def _segment_changed(self, disk: Disk, segment: SegmentRecord, before: SegmentRecord | None) -> None:
        ledger = disk.ledgers[segment.ledger_id]
        if ledger.is_dropped:
            raise Violation("ledgers", f"{disk.name} refers to {segment}, which is deleted")
        if before is None and segment.end_txid is None:
            self._began(segment)
        if segment.end_txid is not None and (
            not ledger.is_closed or ledger.look().end_txid != segment.end_txid
        ):
            raise Violation("ledgers", f"{disk.name} says {segment}, its ledger {ledger.look()}")
        if segment.finalized and (before is None or not before.finalized):
            assert segment.end_txid is not None
            self._finalized(disk, segment.start_txid, segment.end_txid, ledger.content)

    def _not_begun_again(self, disk: Disk, segment: SegmentRecord, old: JournalState) -> None:
        """Q9: a writer begins a segment once; doing it again would forget what was acknowledged in it."""
        for one in old.segments:
            same = (one.start_txid, one.writer_epoch) == (segment.start_txid, segment.writer_epoch)
            if same and one.end_txid is not None and segment.end_txid is None:
                raise Violation("J3", f"{disk.name} begins {one} again as {segment}")

    def _began(self, segment: SegmentRecord) -> None:
        start = segment.start_txid
        if segment.writer_epoch < self.last_epoch:
            return  # one that lost the journal: a quorum will refuse it, so it never holds anything
        if start > 1 and start > self.purged_below:
            at = self._ends.get(start - 1, set())
            if len(at) <= self.acceptors // 2:
                raise Violation("J5", f"segment {start} begins, and only {sorted(at)} end at {start - 1}")

    def _finalized(self, disk: Disk, start: int, end: int, content: bytes) -> None:
        known = self.known
        if known.finalized.setdefault(start, (end, content)) != (end, content):
            raise Violation(
                "J4", f"segment {start} ends at {known.finalized[start][0]}, and at {end}, or differs"
            )
        for rule, last_of in (("J3", known.last_acked_of), ("J6", known.last_seen_of)):
            if last_of.get(start, 0) > end:
                raise Violation(rule, f"segment {start} ends at {end}, and {last_of[start]} was promised")
        for txid in range(start, end + 1):
            one = frame_in(content, start, txid)
            if known.acked.get(txid, one) != one or known.seen.get(txid, one) != one:
                raise Violation("J4", f"txid {txid} is finalized as something else at {disk.name}")
        self._ends.setdefault(end, set()).add(disk.name)

    def _kept(self, disk: Disk, old: JournalState, new: JournalState) -> None:
        """J4: what is finalized stays so, in the state or in a record of its own."""
        still = {s.ledger_id for s in new.segments if s.finalized}
        for segment in old.segments:
            if segment.finalized and segment.ledger_id not in still:
                assert segment.end_txid is not None
                record = disk.finalized.get(segment.start_txid)
                stored = record is not None and record.segment.ledger_id == segment.ledger_id
                if not stored and segment.end_txid >= new.purged_below:
                    raise Violation("J4", f"{disk.name} forgets {segment}")

    def segment_stored(self, disk: Disk, segment: FinalizedSegment) -> None:
        """A finalized segment has a record of its own."""
        if not disk.is_needed(segment):
            return
        found = self.known.finalized.get(segment.start_txid)
        if found is None or found[0] != segment.end_txid:
            raise Violation("J4", f"{disk.name} stores {segment}; it was finalized as {found}")
        if disk.ledgers[segment.ledger_id].is_dropped:
            raise Violation("ledgers", f"{disk.name} stores {segment}, which is deleted")

    def segment_deleted(self, disk: Disk, segment: FinalizedSegment) -> None:
        if disk.is_needed(segment):
            raise Violation("J4", f"{disk.name} deletes {segment}, which is needed")

    def ledger_dropped(self, disk: Disk, ledger_id: int) -> None:
        """Nobody may refer to it any more."""
        if disk.state is not None and ledger_id in kept_ledgers(disk.state.state):
            raise Violation("ledgers", f"{disk.name} deletes ledger {ledger_id}, which its state refers to")
        for found in disk.finalized.values():
            if found.segment.ledger_id == ledger_id and disk.is_needed(found.segment):
                raise Violation("ledgers", f"{disk.name} deletes the ledger of {found.segment}")

    def promised(self, disk: Disk, epoch: int) -> None:
        """An acceptor has told a new writer that earlier ones are over."""
        assert disk.state is not None
        for segment in disk.state.state.segments:
            if segment.end_txid is None and segment.writer_epoch < epoch:
                raise Violation("fence", f"{disk.name} promised epoch {epoch}, and {segment} is open")

    # --- when all is quiet --------------------------------------------------------------------------

    def purged(self, min_txid_to_keep: int) -> None:
        self.purged_below = max(self.purged_below, min_txid_to_keep)

    def discarded(self, from_txid: int) -> None:
        self.known = self.known.without(from_txid)
        self._ends = {end: at for end, at in self._ends.items() if end < from_txid}

    def rolled_back(self, known: Known, ends: dict[int, set[str]], purged_below: int) -> None:
        self.known, self._ends, self.purged_below = known.copy(), ends, purged_below

    def snapshot(self) -> tuple[Known, dict[int, set[str]], int]:
        return self.known.copy(), {end: set(at) for end, at in self._ends.items()}, self.purged_below

    def formatted(self) -> None:
        self.known, self._ends, self.purged_below = Known(), {}, 0

    def everywhere(self, disks: Iterable[Disk]) -> None:
        """Every acceptor has every finalized segment."""
        for disk in disks:
            assert disk.state is not None
            records = [found.segment for found in disk.finalized.values()]
            there = disk.state.state.finalized(records)
            for start, (end, _) in self.known.finalized.items():
                if end >= self.purged_below and start not in there:
                    raise Violation("sync", f"{disk.name} lacks segment {start}-{end} in the end")

    def all_there(self, found: Mapping[int, bytes]) -> None:
        """Everything that was acknowledged or seen can be read in the end."""
        for rule, wanted in (("J3", self.known.acked), ("J6", self.known.seen)):
            for txid, one in wanted.items():
                if txid >= self.purged_below and found.get(txid) != one:
                    raise Violation(rule, f"txid {txid} is {found.get(txid)!r} in the end, not {one!r}")
