"""Starts, finalizes and purges segments, and admits batches to them."""

from __future__ import annotations

from collections.abc import Callable

from metadata.records.journal_record import FinalizedSegment, JournalState, SegmentRecord
from metadata.version import Version

from ...errors import (
    BadJournalState,
    BadRequest,
    JournalError,
    JournalOutOfSync,
    JournalUnavailable,
    RuleViolated,
)
from ...requests import FinalizeLogSegment, PurgeLogs, SendEdits, StartLogSegment
from . import state_transitions
from .acceptor_effects import (
    CreateLedger,
    DeleteFinalized,
    DropLedger,
    EndLedger,
    ListFinalized,
    Program,
    PutFinalized,
    ReadFinalized,
)
from .acceptor_memory import CurrentSegment, Memory
from .epochs import admit, seal, still
from .request_checks import check_layout, check_txid

REPLACED_LEDGERS_KEPT_MAX = 16
"""Once the state lists at least this many replaced ledgers, the start of a new segment deletes them."""


def start_log_segment(me: Memory, request: StartLogSegment) -> Program[None]:
    """Creates a ledger for a new segment, and records the ledger and the writer's epoch in one step."""
    epoch = request.info.epoch
    check_txid("txid", request.txid)
    check_layout(request.layout_version)
    yield from admit(me, request.info)
    me.open = None
    state = yield from seal(me, epoch)
    yield from _refuse_edits_at(me, state, request.txid, epoch)
    yield from archive_all(me, state)
    state = yield from drop_replaced(me, state)
    assert state.storage is not None
    layout = request.layout_version or state.storage.layout_version
    ledger_id = yield from CreateLedger(request.txid, epoch, layout)
    segment = SegmentRecord(request.txid, ledger_id, layout, epoch)
    try:
        yield from change(me, epoch, lambda now: _started(me, state, now, segment))
    except JournalError as error:
        yield from withdraw(me, ledger_id, error)
        raise
    me.open = CurrentSegment(request.txid, ledger_id, layout, epoch, request.txid, request.txid - 1)


def admits_from_memory(me: Memory, request: SendEdits) -> bool:
    """Returns whether `admit_edits` needs no metadata: the writer is the one in memory, and its segment is open."""
    known = me.stored.state if me.stored is not None else None
    if known is None or known.storage is None or me.open is None:
        return False
    return request.info.epoch <= known.last_promised_epoch


def admit_edits(me: Memory, request: SendEdits) -> Program[CurrentSegment | None]:
    """Performs checks 1 to 3 for a batch. Returns the batch's segment, or None for an empty batch.

    As long as the writer stays the same, only memory is consulted. This is safe, because the ledger's fence stops a
    writer that was superseded in another process.
    """
    known = me.stored.state if me.stored is not None else None
    info = request.info
    if me.open is not None and known is not None and known.storage is not None:
        me.refuse_stale(info.epoch, known.last_promised_epoch)
    if known is not None and admits_from_memory(me, request):
        me.take_number(info)
    else:
        known = yield from admit(me, info)
    me.check_writer(info.epoch, known)
    if not request.num_txns:
        return None
    segment = me.segment_for(request)
    check_txid("last txid of a batch", request.last_txid)
    return segment


def finalize_log_segment(me: Memory, request: FinalizeLogSegment) -> Program[None]:
    """Ends a segment permanently at `end_txid`, which must be its last txid. Idempotent."""
    start, end, epoch = request.start_txid, request.end_txid, request.info.epoch
    state = yield from admit(me, request.info)
    if me.open is not None and me.open.start_txid == start:
        written, me.open = me.open.next_txid - 1, None
        if written != end:
            raise JournalOutOfSync(
                f"Trying to finalize in-progress log segment {start} to end at txid {end} "
                f"but only written up to txid {written} ; journal id: {me.journal_id}"
            )
    segment = state_transitions.segment_at(state, start)
    if segment is None:
        try:
            yield from _check_finalized_before(me, state, start, end)
        except JournalError:
            yield from still(
                me, epoch
            )  # a later writer may have finalized the segment after the state was read
            raise
        return
    yield from _check_end(me, segment, end)
    state = yield from change(me, epoch, lambda now: _finalized(me, now, segment, end, epoch))
    yield from archive_all(me, state)


def purge_logs(me: Memory, request: PurgeLogs) -> Program[None]:
    """Drops segments that end before a txid, and deletes unreferenced ledgers and records. Later segments are not
    affected."""
    yield from admit(me, request.info)
    check_txid("txid to keep", request.min_txid_to_keep, least=0)

    def attempt() -> Program[JournalState | None]:
        state = yield from still(me, request.info.epoch)
        beyond = (yield from _highest_end(state)) + 1
        return (yield from me.swap(state_transitions.purged(state, min(request.min_txid_to_keep, beyond))))

    yield from sweep(me, (yield from me.until_swapped(attempt)))


def _highest_end(state: JournalState) -> Program[int]:
    """Returns the highest end of all segments. A segment being written counts as ending before its first txid."""
    ends = [s.start_txid - 1 if s.end_txid is None else s.end_txid for s in state.segments]
    return max((*ends, state.purged_below - 1, (yield from _last_finalized_end(state))))


def _last_finalized_end(state: JournalState) -> Program[int]:
    start = state.last_finalized_start
    segment = state_transitions.segment_at(state, start)
    if segment is not None and segment.finalized:
        return segment.end_txid or 0
    return ((yield from _visible(state, start)) if start else None) or 0


def sweep(me: Memory, state: JournalState) -> Program[None]:
    """Deletes ledgers and records that neither the state nor a rollback needs. May be interrupted at any point and
    repeated."""
    kept = state_transitions.kept_ledgers(state)
    for found in (yield from ListFinalized()):
        if not state.needs(found.segment):
            if found.segment.ledger_id not in kept:
                yield from DropLedger(found.segment.ledger_id)
            yield from DeleteFinalized(found)
    deleted = [ledger for ledger in state.replaced_ledgers if ledger not in kept]
    for ledger in deleted:
        yield from DropLedger(ledger)
    if deleted:
        yield from me.swap(
            state_transitions.swept(state, frozenset(deleted))
        )  # if the swap fails, the next sweep repeats the deletions


def change(me: Memory, epoch: int, step: Callable[[JournalState], JournalState]) -> Program[JournalState]:
    """Makes one change to the state for a writer whose epoch is still the latest. `step` raises if the change is
    forbidden."""

    def attempt() -> Program[JournalState | None]:
        return (yield from me.swap(step((yield from still(me, epoch)))))

    return (yield from me.until_swapped(attempt))


def withdraw(me: Memory, ledger_id: int, why: JournalError) -> Program[None]:
    """Deletes the ledger of a refused step, unless something may refer to the ledger.

    The ledger is kept after an ambiguous swap, which may have taken effect or may still do so. A swap that took effect
    looks like a conflict if other swaps followed before its answer arrived. In that case, the state that was read after
    the swap refers to the ledger, so the ledger is kept as well.
    """
    if isinstance(why, JournalUnavailable):
        return
    state = me.stored.state if me.stored is not None else None
    if state is None or ledger_id not in (*state_transitions.kept_ledgers(state), *state.replaced_ledgers):
        yield from DropLedger(ledger_id)


def drop_replaced(me: Memory, state: JournalState) -> Program[JournalState]:
    """Deletes replaced ledgers once REPLACED_LEDGERS_KEPT_MAX have accumulated. Purging deletes them as well."""
    if len(state.replaced_ledgers) < REPLACED_LEDGERS_KEPT_MAX:
        return state
    kept = state_transitions.kept_ledgers(state)
    deleted = frozenset(ledger for ledger in state.replaced_ledgers if ledger not in kept)
    for ledger in sorted(deleted):
        yield from DropLedger(ledger)
    swept = state_transitions.swept(state, deleted)
    return swept if deleted and (yield from me.swap(swept)) else state


def _started(me: Memory, seen: JournalState, state: JournalState, segment: SegmentRecord) -> JournalState:
    old = state_transitions.segment_at(state, segment.start_txid)
    if old is not None:
        _refuse_edits_of(me, old, segment.writer_epoch)
    if seen.last_finalized_start < state.last_finalized_start >= segment.start_txid:
        raise BadJournalState(
            f"segments up to {state.last_finalized_start} were copied here from other acceptors in the meantime: no "
            f"segment can begin at {segment.start_txid} ; journal id: {me.journal_id}"
        )
    return state_transitions.started(state, segment, frozenset(me.archived))


def _refuse_edits_at(me: Memory, state: JournalState, txid: int, epoch: int) -> Program[None]:
    """Refuses to start a segment at this txid if the txid was purged, if it is in a finalized segment, or if a segment
    already begins there. An unfinalized segment that begins there is no obstacle if an earlier writer began it and it
    holds only a single transaction."""
    segment = state_transitions.segment_at(state, txid)
    if segment is not None:
        _refuse_edits_of(me, segment, epoch)
    if txid < state.purged_below:
        raise BadJournalState(
            f"segments up to txid {state.purged_below - 1} were purged: no segment can begin at {txid} ; "
            f"journal id: {me.journal_id}"
        )
    if txid <= (yield from _last_finalized_end(state)):
        yield from _refuse_inside(me, state, txid)


def _refuse_inside(me: Memory, state: JournalState, txid: int) -> Program[None]:
    records = [found.segment for found in (yield from ListFinalized())]
    for segment in state.finalized(records).values():
        if segment.start_txid <= txid <= segment.end_txid:
            raise _already_finalized(me, segment.start_txid, segment.end_txid)


def _refuse_edits_of(me: Memory, segment: SegmentRecord, epoch: int) -> None:
    if segment.finalized:
        raise _already_finalized(me, segment.start_txid, segment.end_txid or segment.start_txid)
    if segment.end_txid != segment.start_txid or segment.writer_epoch == epoch:
        raise BadJournalState(
            f"The log file of segment {segment.start_txid} seems to contain valid transactions, "
            f"up to txid {segment.end_txid} ; journal id: {me.journal_id}"
        )


def _already_finalized(me: Memory, start: int, end: int) -> BadJournalState:
    return BadJournalState(
        f"Already have a finalized segment beginning at {start}, to {end} ; journal id: {me.journal_id}"
    )


def _check_finalized_before(me: Memory, state: JournalState, start: int, end: int) -> Program[None]:
    known = yield from _visible(state, start)
    if known is None:
        raise JournalOutOfSync(
            f"No log file to finalize at transaction ID {start} ; journal id: {me.journal_id}"
        )
    _check_same_end(me, start, known, end)


def _check_end(me: Memory, segment: SegmentRecord, end: int) -> Program[None]:
    """Checks that the segment on disk ends at exactly `end`."""
    on_disk = segment.end_txid
    if on_disk is None:
        found = yield from EndLedger(segment.ledger_id)
        me.note_end(found)
        on_disk = found.end_txid
    if segment.finalized:
        assert on_disk is not None
        _check_same_end(me, segment.start_txid, on_disk, end)
    elif on_disk != end:
        raise JournalOutOfSync(
            f"Trying to finalize in-progress log segment {segment.start_txid} to end at txid {end} "
            f"but on disk only contains up to txid {on_disk} ; journal id: {me.journal_id}"
        )


def _check_same_end(me: Memory, start: int, known: int, end: int) -> None:
    if known != end:
        raise BadRequest(
            f"Trying to re-finalize already finalized log [{start}-{known}] "
            f"with different endTxId {end} ; journal id: {me.journal_id}"
        )


def _finalized(me: Memory, state: JournalState, segment: SegmentRecord, end: int, epoch: int) -> JournalState:
    now = state_transitions.segment_at(state, segment.start_txid)
    if now is not None and now.finalized:  # possibly because a copy from another acceptor was added
        assert now.end_txid is not None
        _check_same_end(me, now.start_txid, now.end_txid, end)
        return state
    if now is None or now.ledger_id != segment.ledger_id:
        raise JournalOutOfSync(
            f"segment {segment.start_txid} was replaced in the meantime ; journal id: {me.journal_id}"
        )
    accepted = state_transitions.accepted_at(state, segment.start_txid)
    if now.writer_epoch != epoch and (accepted is None or accepted.epoch != epoch):
        # Another writer's edits may end at the same txid as the chosen ones.
        raise JournalOutOfSync(
            f"segment {segment.start_txid} was written in epoch {now.writer_epoch} but not accepted in epoch "
            f"{epoch} ; journal id: {me.journal_id}"
        )
    return state_transitions.finalized(state, segment.start_txid, end)


def _visible(state: JournalState, start: int) -> Program[int | None]:
    """Returns the end of the finalized segment that begins at `start`, from its record."""
    found = yield from ReadFinalized(start)
    return found.segment.end_txid if found is not None and state.shows(found.segment) else None


def archive_all(me: Memory, state: JournalState) -> Program[None]:
    """Gives every finalized segment in the state its own record, so that the next step may drop the segment from the
    state."""
    for segment in state.segments:
        if not segment.finalized or segment.ledger_id in me.archived:
            continue
        if (yield from _archive(me, state, segment)):
            me.archived.add(segment.ledger_id)
    me.archived &= state_transitions.kept_ledgers(state)


def _archive(me: Memory, state: JournalState, segment: SegmentRecord) -> Program[bool]:
    """Writes the segment's record and returns True. If a rollback needs the existing record, returns False instead, so
    that the segment stays in the state."""
    record = segment.as_finalized(state.generation)
    version: Version | None = None

    def attempt() -> Program[bool | None]:
        nonlocal version
        if (yield from PutFinalized(record, version)):
            return True
        found = yield from ReadFinalized(segment.start_txid)
        if found is None:
            version = None
        elif state.shows(found.segment):
            _check_same_ledger(me, found.segment, segment)
            return True
        elif state.needs(found.segment):
            return False
        else:  # dropped by a discard or rollback but not deleted yet: only the old record refers to its ledger
            if found.segment.ledger_id not in state_transitions.kept_ledgers(state):
                yield from DropLedger(found.segment.ledger_id)
            version = found.version
        return None

    return (yield from me.until_swapped(attempt))


def _check_same_ledger(me: Memory, found: FinalizedSegment, segment: SegmentRecord) -> None:
    if found.ledger_id != segment.ledger_id:
        raise RuleViolated(
            f"segment {segment.start_txid} is finalized twice, in ledgers {found.ledger_id} "
            f"and {segment.ledger_id} ; journal id: {me.journal_id}"
        )
