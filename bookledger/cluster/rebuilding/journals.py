"""Rebuilds an acceptor's state and finalized segments from the descriptions in a journal's ledgers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metadata.errors import BadRecord
from metadata.records.journal_record import FinalizedSegment, JournalState, SegmentRecord, decode_state
from metadata.records.ledger_record import JOURNAL, LedgerRecord
from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER, STATE_OF_LEDGER
from qjm_compat.acceptor.programs.request_checks import TXID_MAX

from .logs import EPOCHS_LEFT


@dataclass(frozen=True, slots=True)
class RebuiltAcceptor:
    """One acceptor of a journal, and what is not known about it."""

    state: JournalState
    finalized: tuple[FinalizedSegment, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def last(self) -> SegmentRecord | FinalizedSegment | None:
        """The acceptor's last segment, finalized or in progress."""
        known: list[SegmentRecord | FinalizedSegment] = [*self.finalized, *self.state.segments]
        return max(known, key=lambda one: one.start_txid, default=None)


@dataclass(frozen=True, slots=True)
class _SegmentLedger:
    """A ledger, the state that it describes, and the segment that it claims to be."""

    state: JournalState
    segment: SegmentRecord
    ledger: LedgerRecord

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key for ledgers of the same segment. The ledger with the highest key counts: that of the latest writer
        and, among several copies, the last one."""
        return self.segment.writer_epoch, self.ledger.ledger_id

    @property
    def as_finalized(self) -> FinalizedSegment:
        """The segment in the form of a finalized one; a segment in progress gets a very high end."""
        end = TXID_MAX if self.segment.end_txid is None else self.segment.end_txid
        return replace(self.segment, end_txid=end, finalized=True).as_finalized(self.state.generation)


def acceptor_of(ledger: LedgerRecord) -> tuple[str, str] | None:
    """Returns the journal and the acceptor to which a segment's ledger belongs; None for any other ledger."""
    said = ledger.custom_metadata
    if JOURNAL not in said or ACCEPTOR_OF_LEDGER not in said:
        return None
    return said[JOURNAL].decode(errors="replace"), said[ACCEPTOR_OF_LEDGER].decode(errors="replace")


def rebuilt_acceptor(
    ledgers: Iterable[LedgerRecord], known: JournalState | None = None
) -> RebuiltAcceptor | None:
    """Returns the acceptor to which these ledgers belong; None if none of the ledgers contains the namespace of the
    acceptor's edits.

    The acceptor's epochs are higher than all known ones, so that every writer starts over and finalizes the segment in
    progress. Segments that a `known` state has dropped remain dropped.
    """
    found = [one for ledger in ledgers if (one := _decode_ledger(ledger)) is not None]
    if known is not None:
        found = [one for one in found if known.shows(one.as_finalized)]
    if not found:
        return None
    latest = max(found, key=lambda one: (one.state.last_promised_epoch, one.rank)).state
    ours = [one for one in found if one.state.storage == latest.storage]
    begun = _begun(ours, latest.purged_below)
    segments, doubts = _ended(begun)
    finalized = tuple(one.as_finalized(latest.generation) for one in segments if one.finalized)
    epoch = max(max(one.state.latest_epoch, one.segment.writer_epoch) for one in found)
    state = JournalState(
        storage=latest.storage,
        last_promised_epoch=epoch + EPOCHS_LEFT,
        last_writer_epoch=max((one.writer_epoch for one in segments), default=latest.last_writer_epoch),
        segments=tuple(one for one in segments if not one.finalized),
        last_finalized_start=finalized[-1].start_txid if finalized else 0,
        purged_below=latest.purged_below,
        generation=latest.generation,
        joined_behind=latest.joined_behind,
    )
    return RebuiltAcceptor(state, finalized, tuple(doubts))


def _decode_ledger(ledger: LedgerRecord) -> _SegmentLedger | None:
    try:
        state = decode_state(STATE_OF_LEDGER, ledger.custom_metadata.get(STATE_OF_LEDGER, b""))
    except BadRecord:
        return None
    if state.storage is None or len(state.segments) != 1:
        return None
    return _SegmentLedger(state, replace(state.segments[0], ledger_id=ledger.ledger_id), ledger)


def _begun(found: Iterable[_SegmentLedger], purged_below: int) -> list[_SegmentLedger]:
    """Returns one ledger for each segment, in order, omitting empty ledgers and those with only purged edits."""
    by_start: dict[int, _SegmentLedger] = {}
    for one in sorted(found, key=lambda one: one.rank):
        if one.ledger.last_entry != -1:
            by_start[one.segment.start_txid] = one
    begun = [by_start[start] for start in sorted(by_start)]
    following = [one.segment.start_txid for one in begun[1:]]
    kept = [one for one, start in zip(begun, following, strict=False) if start > purged_below]
    return kept + begun[-1:]


def _ended(begun: Sequence[_SegmentLedger]) -> tuple[list[SegmentRecord], list[str]]:
    """Returns the segments and a description of each doubt about them. Each segment except the last gets an end,
    because a segment begins only after the previous one was finalized (rule J5)."""
    segments, doubts = [], []
    for one, following in zip(begun, [*begun[1:], None], strict=False):
        segment = one.segment
        if following is not None:
            before_next = following.segment.start_txid - 1
            end = before_next if segment.end_txid is None else segment.end_txid
            if end != before_next:
                doubts.append(f"no bookie noted the segments with txids {end + 1} to {before_next}")
            if not one.ledger.is_closed:
                doubts.append(f"ledger {one.ledger.ledger_id} must be recovered: it ends with txid {end}")
            segment = replace(segment, end_txid=end, finalized=True)
        segments.append(segment)
    return segments, doubts
