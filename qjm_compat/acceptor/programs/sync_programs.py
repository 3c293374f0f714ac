"""Brings an acceptor up to date with segments that other acceptors have finalized: reports its own segments, and adds
one that it lacks.

A finalized segment is a majority's decision, so an acceptor that lacks it may add it at any time, even during a write
or a recovery. Three things must never be restored in this way: purged segments; segments dropped by a discard, a
rollback or a format; and an epoch that was already given to another writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage, SegmentRecord

from ...errors import JournalError, JournalUnavailable, RuleViolated, StaleEpoch
from ...requests import RemoteEditLog, SegmentState
from . import state_transitions
from .acceptor_effects import Copied, DropLedger, EndLedger, ListFinalized, Program, ReadFinalized
from .acceptor_memory import Memory
from .edit_log_manifest import written
from .epochs import seal
from .recovery import check_keeps_committed
from .segment_programs import archive_all, withdraw


@dataclass(frozen=True, slots=True)
class SegmentsHeld:
    """The finalized segments of one acceptor, and the information that it has recorded about other segments.

    `purged_below`: segments that ended before this txid were purged. `vouched_txid`: after a discard, a rollback or a
    format over an older journal, the last txid that a writer has since reported as committed; None if nothing was ever
    dropped. `unsealed`: the first txids of segments that a writer may be writing. `in_progress_from`: the first txid of
    the latest segment that is not finalized, or 0 if there is none. `behind`: if this acceptor joined during a segment
    on which it still does not vote, the first txid of that segment, otherwise 0. `keeps_rollback`: an upgrade can still
    be rolled back.
    """

    storage: JournalStorage
    logs: tuple[RemoteEditLog, ...] = ()
    purged_below: int = 0
    vouched_txid: int | None = None
    unsealed: frozenset[int] = frozenset()
    in_progress_from: int = 0
    behind: int = 0
    last_promised_epoch: int = 0
    latest_epoch: int = 0
    keeps_rollback: bool = False

    @property
    def is_new(self) -> bool:
        """Whether nothing has ever been promised to a writer or written here."""
        return not (self.logs or self.in_progress_from or self.last_promised_epoch or self.purged_below)


class SyncOutcome(Enum):
    """An acceptor's answer when it is offered a segment that another acceptor has finalized."""

    COPIED = "it was copied"
    FINALIZED = "the contents were already there, and it is now finalized"
    THERE = "it is already there"
    LACKING = "it is not there yet, and may be copied"
    OPEN = "its writer is still writing it, in this process"
    PURGED = "it was purged"
    NOT_VOUCHED = "no writer has confirmed to this acceptor that it was not dropped"


def segments_held(me: Memory) -> Program[SegmentsHeld]:
    """Returns the segments finalized at this acceptor, without fencing any writer. Raises JournalNotFormatted."""
    return (yield from _held_in(me, (yield from me.look_formatted())))


def make_room_for_another(me: Memory, epochs_above: int) -> Program[SegmentsHeld]:
    """Stops promising epochs up to `epochs_above`, and returns the segments held at that moment. The current writer
    continues.

    After that, no epoch that a lost acceptor may have promised can be promised to another writer. Raises StaleEpoch if
    such an epoch was promised in the meantime.
    """

    def attempt() -> Program[JournalState | None]:
        state = yield from me.fresh()
        if state.last_promised_epoch >= epochs_above:
            raise StaleEpoch(
                f"epoch {state.last_promised_epoch} was promised in the meantime, but every promised epoch has "
                f"to be below {epochs_above} ; journal id: {me.journal_id}"
            )
        return (yield from me.swap(replace(state, epochs_above=max(state.epochs_above, epochs_above))))

    return (yield from _held_in(me, (yield from me.until_swapped(attempt))))


def _held_in(me: Memory, state: JournalState) -> Program[SegmentsHeld]:
    assert state.storage is not None
    finalized = state.finalized([found.segment for found in (yield from ListFinalized())])
    vouched = yield from _vouched(me, state, finalized)
    behind = state.joined_behind if state_transitions.is_behind(state, finalized) else 0
    return SegmentsHeld(
        state.storage,
        tuple(
            RemoteEditLog(s.start_txid, s.end_txid, writer_epoch=s.writer_epoch) for s in finalized.values()
        ),
        state.purged_below,
        vouched,
        frozenset(s.start_txid for s in state_transitions.unsealed(state)),
        max((behind, *(s.start_txid for s in state.segments if not s.finalized))),
        behind,
        state.last_promised_epoch,
        state.latest_epoch,
        state.previous is not None,
    )


def take_finalized(me: Memory, wanted: RemoteEditLog, copy: Copied | None) -> Program[SyncOutcome]:
    """Finalizes a segment that is finalized elsewhere, using this acceptor's own contents if they are complete,
    otherwise `copy`.

    Returns LACKING if a copy is needed but none is given. Deletes a copy that is not needed. Raises RuleViolated if
    this acceptor's contents contradict the segment.
    """
    try:
        taken = yield from me.until_swapped(lambda: _take(me, wanted, copy))
    except JournalError as error:
        if copy is not None:
            yield from withdraw(me, copy.ledger_id, error)
        raise
    if copy is not None and taken is not SyncOutcome.COPIED:
        yield from DropLedger(copy.ledger_id)
    return taken


def _take(me: Memory, wanted: RemoteEditLog, copy: Copied | None) -> Program[SyncOutcome | None]:
    state = yield from me.fresh()
    here = yield from _finalized_here(me, state, wanted)
    if here is not None:
        return SyncOutcome.COPIED if copy is not None and here == copy.ledger_id else SyncOutcome.THERE
    refusal = yield from _refusal(me, state, wanted)
    if refusal is not None:
        return refusal
    if wanted.writer_epoch > state.last_promised_epoch:
        yield from _promise(me, state, wanted.writer_epoch)
        return None  # the state may have changed in the meantime
    state = yield from _sealed(state, wanted.start_txid)
    segment = _segment_of(me, state, wanted, copy)
    if segment is None:
        return SyncOutcome.LACKING
    state = state_transitions.taken_in(state, segment, frozenset(me.archived))
    if not (yield from me.swap(state)):
        return None
    yield from archive_all(me, state)
    is_copy = copy is not None and segment.ledger_id == copy.ledger_id
    return SyncOutcome.COPIED if is_copy else SyncOutcome.FINALIZED


def _finalized_here(me: Memory, state: JournalState, wanted: RemoteEditLog) -> Program[int | None]:
    """Returns the ledger of the segment if this acceptor has finalized it, else None."""
    if wanted.end_txid < state.purged_below:
        return None
    own = state_transitions.segment_at(state, wanted.start_txid)
    here: SegmentRecord | FinalizedSegment | None = own if own is not None and own.finalized else None
    if own is None:
        found = yield from ReadFinalized(wanted.start_txid)
        here = found.segment if found is not None and state.shows(found.segment) else None
    if here is None:
        return None
    if here.end_txid != wanted.end_txid or are_of_two(here.writer_epoch, wanted.writer_epoch):
        raise RuleViolated(
            f"segment {wanted.start_txid} is finalized here with end {here.end_txid} and epoch {here.writer_epoch}, "
            f"but elsewhere with end {wanted.end_txid} and epoch {wanted.writer_epoch} ; "
            f"journal id: {me.journal_id}"
        )
    return here.ledger_id


def _refusal(me: Memory, state: JournalState, wanted: RemoteEditLog) -> Program[SyncOutcome | None]:
    """Returns the reason why a missing segment must not be added, or None if it may be added."""
    if wanted.end_txid < state.purged_below:
        return SyncOutcome.PURGED
    if me.open is not None and me.open.start_txid == wanted.start_txid:
        return SyncOutcome.OPEN
    if not state.generation:
        return None
    finalized = state.finalized([found.segment for found in (yield from ListFinalized())])
    vouched = yield from _vouched(me, state, finalized)
    return SyncOutcome.NOT_VOUCHED if vouched is not None and wanted.end_txid > vouched else None


def are_of_two(epoch: int, other: int) -> bool:
    """Returns whether these epochs are known to belong to two different writers. 0 stands for an unknown writer."""
    return bool(epoch and other and epoch != other)


def _vouched(
    me: Memory, state: JournalState, finalized: Mapping[int, FinalizedSegment]
) -> Program[int | None]:
    """Returns `SegmentsHeld.vouched_txid`. Hadoop's syncer has a similar limit: it copies nothing beyond the last txid
    that the JournalNode has recorded as committed."""
    if not state.generation:
        return None
    committed = state.committed_txid or 0
    committed_txids = [
        committed,
        *(s.end_txid for s in finalized.values() if s.generation == state.generation),
    ]
    if me.generation == state.generation and me.committed_txid is not None:
        committed_txids.append(me.committed_txid)
    for segment in state.segments:
        if not segment.finalized and segment.start_txid > committed:
            committed_txids.append((yield from _committed_in(me, segment)))
    return max(committed_txids)


def _committed_in(me: Memory, segment: SegmentRecord) -> Program[int]:
    try:
        end = yield from written(me, segment)
    except JournalUnavailable:
        return 0  # an unreadable ledger proves nothing, and may be the one to be replaced
    return end.committed_txid or 0


def _promise(me: Memory, state: JournalState, epoch: int) -> Program[None]:
    """Promises the journal to the epoch of the segment's writer, as a majority has already done, and fences all earlier
    writers."""
    if (yield from me.swap(state_transitions.promised(state, epoch))):
        with suppress(StaleEpoch):
            yield from seal(me, epoch)


def _sealed(state: JournalState, start_txid: int) -> Program[JournalState]:
    """Seals this acceptor's version of the segment, because its writer no longer writes to the segment. Drops a version
    whose ledger cannot be ended."""
    own = state_transitions.segment_at(state, start_txid)
    if own is None or own.end_txid is not None:
        return state
    try:
        end = yield from EndLedger(own.ledger_id)
    except JournalUnavailable:
        return replace(
            state,
            segments=tuple(s for s in state.segments if s is not own),
            replaced_ledgers=(*state.replaced_ledgers, own.ledger_id),
        )
    return state_transitions.sealed(state, {own.ledger_id: end.end_txid})


def _segment_of(
    me: Memory, state: JournalState, wanted: RemoteEditLog, copy: Copied | None
) -> SegmentRecord | None:
    """Returns this acceptor's segment if the same writer wrote it to the same end; otherwise the copy."""
    own = state_transitions.segment_at(state, wanted.start_txid)
    is_known = own is not None and own.writer_epoch == wanted.writer_epoch != 0
    if own is not None and is_known and own.end_txid == wanted.end_txid:
        return replace(own, finalized=True)
    if own is not None:
        assert own.end_txid is not None
        here = SegmentState(own.start_txid, own.end_txid, True, own.writer_epoch)
        check_keeps_committed(me, here, wanted.end_txid)
    if copy is None:
        return None
    return SegmentRecord(
        wanted.start_txid,
        copy.ledger_id,
        copy.layout_version,
        wanted.writer_epoch,
        wanted.end_txid,
        finalized=True,
    )
