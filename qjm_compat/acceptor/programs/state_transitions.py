"""State transitions of an acceptor: each function derives the next state from the given one.

The programs, not these functions, decide whether a step is allowed. A ledger that a step replaces is added to
`replaced_ledgers`, so that it is deleted only after the step has taken effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from metadata.records.journal_record import (
    DROPPED_MAX,
    SEGMENTS_MAX,
    AcceptedRecovery,
    Dropped,
    JournalState,
    JournalStorage,
    SegmentRecord,
)

from ...errors import BadJournalState
from ...requests import SegmentState


def segment_at(state: JournalState, start_txid: int) -> SegmentRecord | None:
    """Returns the segment in the state that begins at this txid."""
    return next((s for s in state.segments if s.start_txid == start_txid), None)


def accepted_at(state: JournalState, start_txid: int) -> AcceptedRecovery | None:
    return next((a for a in state.accepted if a.start_txid == start_txid), None)


def is_behind(state: JournalState, finalized_starts: Iterable[int]) -> bool:
    """Returns whether the acceptor joined while a segment was in progress and does not know that segment's outcome yet.

    The outcome is known once this acceptor has the segment, sealed or finalized, or once the segment is purged. The
    segment counts as purged if this acceptor has a later segment and everything before the later one is purged. The
    mere existence of a later segment proves nothing, because the majority that finalized the earlier one may include
    the lost acceptor that this one replaces.
    """
    if not state.joined_behind:
        return False
    finalized = set(finalized_starts)
    sealed = {s.start_txid for s in state.segments if s.end_txid is not None}
    if state.joined_behind in finalized | sealed:
        return False
    starts = finalized | {s.start_txid for s in state.segments}
    next_start = min((start for start in starts if start > state.joined_behind), default=None)
    return next_start is None or next_start > state.purged_below


def unsealed(state: JournalState) -> tuple[SegmentRecord, ...]:
    """Returns the segments whose ledgers can still be appended to."""
    return tuple(s for s in state.segments if s.end_txid is None)


def promised(state: JournalState, epoch: int, owner: bytes = b"") -> JournalState:
    return replace(state, last_promised_epoch=epoch, owner=owner)


def sealed(state: JournalState, ends: Mapping[int, int | None]) -> JournalState:
    """Records the ends of ledgers, and drops empty segments."""
    kept: list[SegmentRecord] = []
    empty: list[int] = []
    for segment in state.segments:
        if segment.ledger_id in ends and segment.end_txid is None:
            end = ends[segment.ledger_id]
            if end is None:
                empty.append(segment.ledger_id)
                continue
            segment = replace(segment, end_txid=end)
        kept.append(segment)
    return replace(state, segments=tuple(kept), replaced_ledgers=(*state.replaced_ledgers, *empty))


def started(state: JournalState, segment: SegmentRecord, archived: frozenset[int]) -> JournalState:
    """Adds a new segment of a new writer, replacing one that has at most a single transaction.

    If the acceptor joined while this very segment was in progress, it votes on the segment from now on: the new writer
    first asked a majority of acceptors that knew the segment's contents, and nothing had been written to it. Segments
    that have their own records (`archived`, by ledger) are removed from the state.
    """
    return replace(
        _added(state, segment, archived),
        last_writer_epoch=segment.writer_epoch,
        joined_behind=state.joined_behind if state.joined_behind < segment.start_txid else 0,
    )


def finalized(state: JournalState, start_txid: int, end_txid: int) -> JournalState:
    """Finalizes a segment, and drops the value accepted for it."""
    segments = tuple(
        replace(s, end_txid=end_txid, finalized=True) if s.start_txid == start_txid else s
        for s in state.segments
    )
    latest = max(state.last_finalized_start, start_txid)
    return _without_accepted(replace(state, segments=segments, last_finalized_start=latest), start_txid)


def taken_in(state: JournalState, segment: SegmentRecord, archived: frozenset[int]) -> JournalState:
    """Adds a segment that other acceptors have finalized, replacing this acceptor's version of it; see `started`."""
    added = _added(state, segment, archived)
    return replace(added, last_finalized_start=max(state.last_finalized_start, segment.start_txid))


def accepted(
    state: JournalState, wanted: SegmentState, epoch: int, copy: SegmentRecord | None
) -> JournalState:
    """Records the choice made by a recovery and, in the same step, the ledger that holds the chosen segment."""
    kept = tuple(a for a in state.accepted if a.start_txid != wanted.start_txid)
    choice = AcceptedRecovery(wanted.start_txid, wanted.end_txid, wanted.in_progress, epoch)
    return replace(_holding(state, copy) if copy is not None else state, accepted=(*kept, choice))


def purged(state: JournalState, min_txid_to_keep: int) -> JournalState:
    """Drops segments that end before this txid. Keeps a segment that can still grow."""
    gone = [s for s in state.segments if s.end_txid is not None and s.end_txid < min_txid_to_keep]
    return replace(
        state,
        purged_below=max(state.purged_below, min_txid_to_keep),
        segments=tuple(s for s in state.segments if s not in gone),
        accepted=tuple(a for a in state.accepted if a.start_txid >= min_txid_to_keep),
        # If a finalized segment has its own record, the ledger and the record are deleted at the same time.
        replaced_ledgers=(*state.replaced_ledgers, *(s.ledger_id for s in gone)),
    )


def refused(state: JournalState, owner: bytes = b"") -> JournalState:
    """Refuses all earlier writers. If the journal is promised to the process `owner`, that process's writer is not
    refused."""
    if owner and owner == state.owner:
        return state
    return promised(state, state.last_promised_epoch + 1)


def discarded(state: JournalState, start_txid: int, last_kept_start: int) -> JournalState:
    """Drops all segments from `start_txid` on. Moves the committed txid back to the one before `start_txid`, and clears
    `joined_behind` if it refers to a dropped segment."""
    gone = [s for s in state.segments if s.start_txid >= start_txid]
    return _dropping(
        replace(
            state,
            committed_txid=start_txid - 1,
            segments=tuple(s for s in state.segments if s not in gone),
            accepted=tuple(a for a in state.accepted if a.start_txid < start_txid),
            last_finalized_start=last_kept_start,
            joined_behind=state.joined_behind if state.joined_behind < start_txid else 0,
            replaced_ledgers=(*state.replaced_ledgers, *(s.ledger_id for s in gone)),
        ),
        Dropped(0, state.generation, start_txid),
    )


def formatted(
    old: JournalState | None, storage: JournalStorage, promised_epoch: int = 0, joined_behind: int = 0
) -> JournalState:
    """Creates a new journal. If there is an old one, raises its promised epoch, so that its writers are refused.

    `promised_epoch` and `joined_behind` are for an acceptor that joins existing ones; see qjm_compat/sync/joining.py.
    """
    if old is None:
        return JournalState(storage=storage, last_promised_epoch=promised_epoch, joined_behind=joined_behind)
    behind = old.previous
    left = (*(s.ledger_id for s in old.segments), *(s.ledger_id for s in (behind.segments if behind else ())))
    return JournalState(
        storage=storage,
        last_promised_epoch=old.latest_epoch + 1,
        generation=old.generation + 1,
        dropped=(Dropped(0, old.generation, 0),),
        replaced_ledgers=(*old.replaced_ledgers, *left),
    )


def upgrading(state: JournalState, committed_txid: int | None) -> JournalState:
    """Takes the first step of an upgrade: the journal is no longer formatted, and the old state, including its
    committed txid, is kept for a rollback."""
    kept = replace(state, committed_txid=committed_txid)
    return replace(kept, storage=None, previous=kept)


def upgraded(state: JournalState, storage: JournalStorage) -> JournalState:
    """Takes the second step of an upgrade: keeps the segments, and begins a new generation for later ones."""
    return replace(state, storage=storage, generation=state.generation + 1)


def rolled_back(state: JournalState, previous: JournalState) -> JournalState:
    """Restores the state before the upgrade, but keeps the epochs promised since then."""
    kept = {s.ledger_id for s in previous.segments}
    left = tuple(s.ledger_id for s in state.segments if s.ledger_id not in kept)
    back = replace(
        previous,
        last_promised_epoch=max(state.last_promised_epoch, previous.last_promised_epoch),
        epochs_above=state.epochs_above,
        owner=state.owner,
        generation=state.generation,
        replaced_ledgers=tuple(i for i in (*state.replaced_ledgers, *left) if i not in kept),
        previous=None,
    )
    if (
        state.generation == previous.generation
    ):  # not upgraded yet, so nothing has been written since the pre-upgrade
        return back
    return _dropping(back, Dropped(previous.generation + 1, state.generation, 0))


def rollback_given_up(state: JournalState) -> JournalState:
    return replace(state, previous=None)


def swept(state: JournalState, deleted: frozenset[int]) -> JournalState:
    """Removes deleted ledgers from the state."""
    left = tuple(ledger for ledger in state.replaced_ledgers if ledger not in deleted)
    return replace(state, replaced_ledgers=left)


def kept_ledgers(state: JournalState) -> frozenset[int]:
    """Returns the ledgers in the current state and in the state that a rollback would return to."""
    states = (state, state.previous) if state.previous is not None else (state,)
    return frozenset(s.ledger_id for one in states for s in one.segments)


def _added(state: JournalState, segment: SegmentRecord, archived: frozenset[int]) -> JournalState:
    left = tuple(s for s in state.segments if not (s.finalized and s.ledger_id in archived))
    added = _holding(replace(state, segments=left), segment)
    if len(added.segments) > SEGMENTS_MAX:
        raise BadJournalState(
            f"{len(added.segments) - 1} segments of this journal were never finalized here; purge the ones you do "
            f"not need"
        )
    return _without_accepted(added, segment.start_txid)


def _holding(state: JournalState, segment: SegmentRecord) -> JournalState:
    """Replaces the segment that begins at the same txid. If the old segment is in a different ledger, marks that ledger
    for deletion."""
    others = tuple(s for s in state.segments if s.start_txid != segment.start_txid)
    given_up = [s.ledger_id for s in state.segments if s not in others and s.ledger_id != segment.ledger_id]
    return replace(
        state,
        segments=tuple(sorted((*others, segment), key=lambda s: s.start_txid)),
        replaced_ledgers=(*state.replaced_ledgers, *given_up),
    )


def _dropping(state: JournalState, dropped: Dropped) -> JournalState:
    if len(state.dropped) >= DROPPED_MAX:
        raise BadJournalState(f"this journal was rolled back {DROPPED_MAX} times; copy it into a new one")
    return replace(state, generation=state.generation + 1, dropped=(*state.dropped, dropped))


def _without_accepted(state: JournalState, start_txid: int) -> JournalState:
    return replace(state, accepted=tuple(a for a in state.accepted if a.start_txid != start_txid))
