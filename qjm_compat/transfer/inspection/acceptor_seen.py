"""Snapshot of one acceptor in the metadata: its state and records. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.records.journal_record import FinalizedSegment, JournalState, SegmentRecord
from metadata.version import Version


@dataclass(frozen=True, slots=True)
class AcceptorSeen:
    """The state of one acceptor at one moment. `records` contains all existing records, including those of segments
    that no longer belong to the acceptor.

    `unreadable` describes the problems of records that cannot be decoded.
    """

    name: str
    version: Version | None
    state: JournalState
    records: tuple[FinalizedSegment, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def finalized(self) -> tuple[FinalizedSegment, ...]:
        """The finalized segments of the journal that have records, in order."""
        return tuple(record for record in self.records if self.state.shows(record))

    @property
    def latest(self) -> tuple[SegmentRecord, ...]:
        """Segments in the acceptor's state that do not have a record yet."""
        recorded = {record.ledger_id for record in self.finalized}
        return tuple(s for s in self.state.segments if s.ledger_id not in recorded)

    @property
    def segments(self) -> tuple[SegmentRecord, ...]:
        """All of the acceptor's segments; those that have records come first."""
        return (*(segment_of(record) for record in self.finalized), *self.latest)

    @property
    def in_progress(self) -> tuple[SegmentRecord, ...]:
        return tuple(s for s in self.state.segments if not s.finalized)

    @property
    def last_final_start(self) -> int:
        """The first txid of the last finalized segment; 0 if there is none."""
        return max(self.state.finalized(self.records), default=0)

    def has_final(self, start_txid: int) -> bool:
        """Returns whether the segment that begins at `start_txid` is finalized at this acceptor, with or without a
        record."""
        return start_txid in self.state.finalized(self.records)

    def needs(self, ledger_id: int) -> bool:
        """Returns whether anything in this snapshot refers to a ledger, even if only to have it deleted."""
        state = self.state
        states = (state, state.previous) if state.previous is not None else (state,)
        return any(record.ledger_id == ledger_id for record in self.records) or any(
            ledger_id in one.replaced_ledgers or any(s.ledger_id == ledger_id for s in one.segments)
            for one in states
        )


def segment_of(record: FinalizedSegment) -> SegmentRecord:
    """Converts a finalized segment to the form used in the state."""
    return SegmentRecord(
        record.start_txid,
        record.ledger_id,
        record.layout_version,
        record.writer_epoch,
        record.end_txid,
        finalized=True,
    )
