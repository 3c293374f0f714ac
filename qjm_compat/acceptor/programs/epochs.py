"""Epochs: promises the journal to one writer, and fences the ledgers of earlier writers (rules J1, J2)."""

from __future__ import annotations

from metadata.records.journal_record import JournalState

from ...errors import JournalError, StaleEpoch
from ...requests import GetJournalState, Heartbeat, JournalStateReply, NewEpoch, NewEpochReply, RequestInfo
from . import state_transitions
from .acceptor_effects import EndLedger, Program
from .acceptor_memory import Memory


def get_journal_state(me: Memory, _: GetJournalState) -> Program[JournalStateReply]:
    """Returns the highest epoch that has been promised or can no longer be promised."""
    state = yield from me.fresh()
    return JournalStateReply(state.latest_epoch)


def new_epoch(me: Memory, request: NewEpoch) -> Program[NewEpochReply]:
    """Promises the journal to a new writer. Fences all ledgers of the old writer before answering."""

    def promise() -> Program[JournalState | None]:
        state = yield from me.fresh()
        _check_namespace(me, request, state)
        if request.epoch <= state.latest_epoch:
            raise StaleEpoch(
                f"Proposed epoch {request.epoch} <= last promise {state.latest_epoch} ; "
                f"journal id: {me.journal_id}"
            )
        return (yield from me.swap(state_transitions.promised(state, request.epoch, request.owner)))

    yield from me.until_swapped(promise)
    me.open = None
    state = yield from seal(me, request.epoch)
    starts = [s.start_txid for s in state.segments]
    latest = max((*starts, state.last_finalized_start, state.joined_behind))
    return NewEpochReply(latest or None)


def admit(me: Memory, info: RequestInfo) -> Program[JournalState]:
    """Performs checks 1 and 2, which apply to every call from a writer. Returns the state under which the call was
    admitted."""

    def attempt() -> Program[JournalState | None]:
        state = yield from still(me, info.epoch)
        if info.epoch == state.last_promised_epoch:
            return state
        is_promised = yield from me.swap(state_transitions.promised(state, info.epoch))
        return (yield from seal(me, info.epoch)) if is_promised else None

    state = yield from me.until_swapped(attempt)
    me.take_number(info)
    return state


def heartbeat(me: Memory, request: Heartbeat) -> Program[None]:
    """Performs check 2 only."""
    yield from admit(me, request.info)


def still(me: Memory, epoch: int) -> Program[JournalState]:
    """Returns the current state if this writer's epoch is still the latest one promised."""
    state = yield from me.fresh()
    me.refuse_stale(epoch, state.last_promised_epoch)
    return state


def seal(me: Memory, epoch: int) -> Program[JournalState]:
    """Fences and closes every ledger that can still be appended to, and records its end. Drops segments without edits.

    After this, no writer of an earlier epoch can add anything to this acceptor, regardless of the process it runs in.
    """
    ends: dict[int, int | None] = {}

    def attempt() -> Program[JournalState | None]:
        state = yield from still(me, epoch)
        left = state_transitions.unsealed(state)
        if not left:
            return state
        for segment in left:
            if segment.ledger_id not in ends:
                end = yield from EndLedger(segment.ledger_id)
                me.note_end(end)
                ends[segment.ledger_id] = end.end_txid
        if me.open is not None and me.open.ledger_id in ends:
            me.open = None
        return (yield from me.swap(state_transitions.sealed(state, ends)))

    return (yield from me.until_swapped(attempt))


def _check_namespace(me: Memory, request: NewEpoch, state: JournalState) -> None:
    assert state.storage is not None
    mine, theirs = state.storage, request.namespace
    if mine.namespace_id != theirs.namespace_id:
        raise JournalError(
            f"Incompatible namespaceID for journal {me.journal_id}: NameNode has {theirs.namespace_id}, "
            f"the journal has {mine.namespace_id} ; journal id: {me.journal_id}"
        )
    if mine.cluster_id != theirs.cluster_id:
        raise JournalError(
            f"Incompatible clusterID for journal {me.journal_id}: NameNode has {theirs.cluster_id}, "
            f"the journal has {mine.cluster_id} ; journal id: {me.journal_id}"
        )
