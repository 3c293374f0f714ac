"""The acceptor's side of segment recovery: prepare and accept.

This is Paxos with the segment's end as its value. The value and the ledger that holds it are accepted in one
compare-and-swap, so a crash leaves either a complete acceptance or none.
"""

from __future__ import annotations

from metadata.records.journal_record import AcceptedRecovery, JournalState, SegmentRecord

from ...errors import BadJournalState, BadRequest, JournalError, JournalOutOfSync, RuleViolated
from ...requests import AcceptRecovery, PrepareRecovery, PrepareReply, SegmentState
from . import state_transitions
from .acceptor_effects import CopySegment, DropLedger, Program, ReadFinalized
from .acceptor_memory import Memory, state_of
from .epochs import admit, seal, still
from .segment_programs import change, withdraw


def prepare_recovery(me: Memory, request: PrepareRecovery) -> Program[PrepareReply]:
    """Seals the segment against earlier writers. Returns the segment as stored at this acceptor and, unless it is
    finalized, the epoch of the recovery accepted for it, if any."""
    yield from admit(me, request.info)
    me.open = None
    state = yield from seal(me, request.info.epoch)
    found = yield from _on_disk(state, request.segment_txid)
    if found is None and request.segment_txid <= state.joined_behind:
        raise BadJournalState(
            f"this acceptor joined the journal while segment {state.joined_behind} was in progress, and does not "
            f"know what was written to segment {request.segment_txid}: more of the other acceptors must answer ; "
            f"journal id: {me.journal_id}"
        )
    accepted = state_transitions.accepted_at(state, request.segment_txid)
    if accepted is None or (found is not None and not found.in_progress):
        return PrepareReply(found, None, state.last_writer_epoch, me.committed_txid)
    _check_holds(me, found, accepted)
    return PrepareReply(found, accepted.epoch, state.last_writer_epoch, me.committed_txid)


def accept_recovery(me: Memory, request: AcceptRecovery) -> Program[None]:
    """Accepts the chosen segment and records the choice. Copies the segment first if the contents here differ."""
    epoch, wanted = request.info.epoch, request.state
    yield from admit(me, request.info)
    me.open = None
    state = yield from seal(me, epoch)
    if wanted.end_txid <= 0 or wanted.end_txid < wanted.start_txid:
        raise BadRequest(f"bad recovery state for segment {wanted.start_txid}: {wanted}")
    here = yield from _on_disk(state, wanted.start_txid)
    try:
        _check_may_accept(me, state, here, wanted, epoch)
    except RuleViolated:
        yield from still(me, epoch)  # a later writer may have finalized the segment after the state was read
        raise
    if here is not None and not here.in_progress:
        return  # already finalized with exactly this end: nothing to decide
    copy: SegmentRecord | None = None
    if not _is_same(here, wanted):
        copy = yield from _copied(request)
    try:
        now = yield from change(me, epoch, lambda now: _accepted(me, state, now, request, copy))
    except JournalError as error:
        if copy is not None:
            yield from withdraw(me, copy.ledger_id, error)
        raise
    if copy is not None and copy.ledger_id not in state_transitions.kept_ledgers(now):
        yield from DropLedger(copy.ledger_id)


def _accepted(
    me: Memory, seen: JournalState, now: JournalState, request: AcceptRecovery, copy: SegmentRecord | None
) -> JournalState:
    """Records the choice and its ledger, unless a finalized copy from another acceptor has arrived in the meantime."""
    wanted, epoch = request.state, request.info.epoch
    own = state_transitions.segment_at(now, wanted.start_txid)
    if own is not None and own.finalized:
        _check_may_accept(me, now, state_of(own), wanted, epoch)
        return now
    if own is None and seen.last_finalized_start < now.last_finalized_start >= wanted.start_txid:
        raise JournalOutOfSync(
            f"segment {wanted.start_txid} was copied here from another acceptor in the meantime ; "
            f"journal id: {me.journal_id}"
        )
    return state_transitions.accepted(now, wanted, epoch, copy)


def _on_disk(state: JournalState, start_txid: int) -> Program[SegmentState | None]:
    """Returns the segment that begins at `start_txid` if it is sealed or finalized."""
    segment = state_transitions.segment_at(state, start_txid)
    if segment is not None:
        return state_of(segment)
    found = yield from ReadFinalized(start_txid)
    if found is None or not state.shows(found.segment):
        return None
    return SegmentState(start_txid, found.segment.end_txid, False, found.segment.writer_epoch)


def _check_holds(me: Memory, found: SegmentState | None, accepted: AcceptedRecovery) -> None:
    if found is None or found.end_txid != accepted.end_txid:
        raise RuleViolated(
            f"segment {accepted.start_txid} was accepted with end {accepted.end_txid}, "
            f"but the segment here is {found} ; journal id: {me.journal_id}"
        )


def _check_may_accept(
    me: Memory, state: JournalState, here: SegmentState | None, wanted: SegmentState, epoch: int
) -> None:
    before = state_transitions.accepted_at(state, wanted.start_txid)
    if before is not None and before.epoch > epoch:
        raise RuleViolated(
            f"segment {wanted.start_txid} was accepted in the later epoch {before.epoch} ; "
            f"journal id: {me.journal_id}"
        )
    if here is None or _is_same(here, wanted):
        return
    check_keeps_committed(me, here, wanted.end_txid)
    if not here.in_progress:
        raise RuleViolated(
            f"Cannot replace finalized segment {here.start_txid}-{here.end_txid} of epoch {here.writer_epoch} with "
            f"one of epoch {wanted.writer_epoch} that ends at {wanted.end_txid} ; journal id: {me.journal_id}"
        )


def check_keeps_committed(me: Memory, here: SegmentState, end_txid: int) -> None:
    """Raises RuleViolated if a copy that ends at `end_txid` lacks committed edits that are stored here."""
    committed = me.committed_txid
    if committed is not None and end_txid < committed <= here.end_txid and here.start_txid <= committed:
        raise RuleViolated(
            f"Cannot accept segment {here.start_txid}-{end_txid}: would discard already-committed "
            f"txn, up to {committed} of {here.end_txid} ; journal id: {me.journal_id}"
        )


def _is_same(here: SegmentState | None, wanted: SegmentState) -> bool:
    """Returns whether the two segments have equal contents. They do if they have the same end and the same writer,
    because a writer writes each transaction only once.

    Comparing only the ends is not sufficient: two writers may each have begun a segment at the same txid, on different
    minorities, and the two segments may have the same end.
    """
    if here is None or here.end_txid != wanted.end_txid:
        return False
    return here.writer_epoch == wanted.writer_epoch or wanted.writer_epoch == 0


def _copied(request: AcceptRecovery) -> Program[SegmentRecord]:
    wanted = request.state
    copied = yield from CopySegment(request.source, wanted.start_txid, wanted.end_txid, wanted.writer_epoch)
    return SegmentRecord(
        wanted.start_txid, copied.ledger_id, copied.layout_version, wanted.writer_epoch, wanted.end_txid
    )
