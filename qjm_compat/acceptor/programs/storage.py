"""Formats, upgrades and rolls back a journal: calls that carry no epoch, made while no NameNode is running."""

from __future__ import annotations

from collections.abc import Callable

from metadata.records.journal_record import JournalState, JournalStorage

from ...errors import BadJournalState, JournalError, JournalNotEmpty, JournalNotFormatted, JournalUnavailable
from ...requests import (
    CanRollBack,
    DiscardSegments,
    DoFinalize,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    Format,
    GetJournalCTime,
    GetStorageInfo,
    IsFormatted,
)
from . import state_transitions
from .acceptor_effects import EndLedger, LedgerEnd, Program
from .acceptor_memory import Memory
from .edit_log_manifest import finalized_logs
from .request_checks import check_storage, check_txid
from .segment_programs import sweep

StorageStep = Callable[[JournalState], JournalState]


def is_formatted(me: Memory, _: IsFormatted) -> Program[bool]:
    """Returns whether the journal is formatted. If the journal does not exist, returns False."""
    state = yield from me.look()
    return state is not None and state.storage is not None


def get_storage_info(me: Memory, _: GetStorageInfo) -> Program[JournalStorage]:
    state = yield from me.look_formatted()
    assert state.storage is not None
    return state.storage


def get_journal_c_time(me: Memory, _: GetJournalCTime) -> Program[int]:
    state = yield from me.look_formatted()
    assert state.storage is not None
    return state.storage.c_time


def format_journal(me: Memory, request: Format) -> Program[None]:
    """Formats a new journal. Raises JournalNotEmpty for an existing one, unless `force` is set, in which
    case its ledgers are fenced and then deleted."""
    if request.namespace.namespace_id == 0:
        raise BadJournalState("can't format with uninitialized namespace info: its namespaceID is 0")
    check_storage(request.namespace.storage)

    def attempt() -> Program[JournalState | None]:
        old = yield from me.fresh_or_none()
        if old is not None and not request.force:
            raise JournalNotEmpty(
                f"Can't format the storage directory because the current directory is not empty: journal "
                f"{me.journal_id} is already formatted; use force if its edits may be discarded"
            )
        yield from _fence_all(me, old, unless_lost_from=0)
        storage, promised = request.namespace.storage, request.promised_epoch
        return (
            yield from me.swap(state_transitions.formatted(old, storage, promised, request.joined_behind))
        )

    state = yield from me.until_swapped(attempt)
    _forget(me)
    me.committed_txid = None
    yield from sweep(me, state)


def do_pre_upgrade(me: Memory, request: DoPreUpgrade) -> Program[None]:
    """Saves the journal's state for a rollback. Until `do_upgrade`, the journal counts as not formatted."""
    yield from _step(me, lambda state: state_transitions.refused(_upgrading(me, state), request.owner))


def do_upgrade(me: Memory, request: DoUpgrade) -> Program[None]:
    """Takes the second step of an upgrade: the journal continues with new storage info."""
    check_storage(request.storage)

    def step(state: JournalState) -> JournalState:
        if state.previous is None or state.storage is not None:
            raise BadJournalState(f"journal {me.journal_id} is not being upgraded: run doPreUpgrade first")
        return state_transitions.upgraded(state, request.storage)

    yield from _step(me, step)


def do_finalize(me: Memory, _: DoFinalize) -> Program[None]:
    """Ends an upgrade, and deletes data that was kept only for a rollback. Does not stop the writer, because running
    NameNodes make this call."""

    def attempt() -> Program[JournalState | None]:
        found = yield from me.fresh_or_none()
        if found is None:
            raise JournalNotFormatted(me.journal_id)
        if found.storage is None:
            raise BadJournalState(
                f"journal {me.journal_id} is being upgraded: run doUpgrade or doRollback first"
            )
        state = state_transitions.rollback_given_up(found)
        return found if state == found else (yield from me.swap(state))

    yield from sweep(me, (yield from me.until_swapped(attempt)))


def can_roll_back(me: Memory, request: CanRollBack) -> Program[bool]:
    """Returns whether there is a state to roll back to. Raises JournalError if that state has another layout."""
    state = yield from me.look()
    previous = state.previous if state is not None else None
    if previous is None or previous.storage is None:
        return False
    if previous.storage.layout_version != request.target_layout_version:
        raise JournalError(
            f"Cannot rollback to storage version {request.target_layout_version}: the previous state of "
            f"journal {me.journal_id} is of version {previous.storage.layout_version}"
        )
    return True


def do_rollback(me: Memory, request: DoRollback) -> Program[None]:
    """Restores the state before the upgrade. Drops the segments written since then, but keeps the promised epochs."""

    def step(state: JournalState) -> JournalState:
        if state.previous is None:
            raise BadJournalState(f"journal {me.journal_id} has no previous state to roll back to")
        return state_transitions.refused(state_transitions.rolled_back(state, state.previous), request.owner)

    state = yield from _step(me, step)
    # txids committed since the upgrade are rolled back along with their edits
    me.committed_txid = state.committed_txid


def discard_segments(me: Memory, request: DiscardSegments) -> Program[None]:
    """Drops every segment from a txid on. The next purge deletes their ledgers and records."""
    start = request.start_txid
    check_txid("txid to discard from", start)

    def attempt() -> Program[JournalState | None]:
        state = yield from _fence_all(me, (yield from me.fresh()), unless_lost_from=start)
        assert state is not None
        kept = yield from _kept_before(me, state, start)
        return (
            yield from me.swap(
                state_transitions.refused(state_transitions.discarded(state, start, kept), request.owner)
            )
        )

    yield from me.until_swapped(attempt)
    _forget(me)
    me.committed_txid = start - 1


def _kept_before(me: Memory, state: JournalState, start: int) -> Program[int]:
    """Returns the start of the last finalized segment that is kept. Raises BadJournalState if nothing may be discarded
    from `start` on."""
    if start < state.purged_below:
        raise BadJournalState(
            f"Cannot discard segments from txid {start} on: edits before {state.purged_below} were purged ; "
            f"journal id: {me.journal_id}"
        )
    logs = yield from finalized_logs(state)
    if state_transitions.is_behind(state, (log.start_txid for log in logs)):
        raise BadJournalState(
            f"Cannot discard segments from txid {start} on: this acceptor joined while segment "
            f"{state.joined_behind} was in progress, and lacks that segment: sync this acceptor first ; "
            f"journal id: {me.journal_id}"
        )
    # Segments in progress are not checked: a copy here may be longer than the one chosen elsewhere.
    for log in logs:
        if log.start_txid < start <= log.end_txid:
            raise BadJournalState(
                f"Cannot discard segments from txid {start} on: it lies inside segment "
                f"{log.start_txid}-{log.end_txid} ; journal id: {me.journal_id}"
            )
    return max((log.start_txid for log in logs if log.start_txid < start), default=0)


def _fence_all(
    me: Memory, state: JournalState | None, *, unless_lost_from: int | None = None
) -> Program[JournalState | None]:
    """Fences and closes every ledger that is still being written to. The caller's next swap records their ends.

    The caller drops segments from `unless_lost_from` on anyway, so a failure to end one of their ledgers is ignored.
    """
    if state is None:
        return None
    ends: dict[int, int | None] = {}
    for segment in state_transitions.unsealed(state):
        try:
            end = yield from EndLedger(segment.ledger_id)
        except JournalUnavailable:
            if unless_lost_from is None or segment.start_txid < unless_lost_from:
                raise
            end = LedgerEnd(None)
        me.note_end(end)
        ends[segment.ledger_id] = end.end_txid
    return state_transitions.sealed(state, ends)


def _upgrading(me: Memory, state: JournalState) -> JournalState:
    if state.storage is None:
        raise JournalNotFormatted(me.journal_id)
    if state.previous is not None:
        raise BadJournalState(
            f"journal {me.journal_id} still has the state from before its last upgrade: finalize the upgrade or roll "
            f"it back"
        )
    return state_transitions.upgrading(state, me.committed_txid)


def _step(me: Memory, step: StorageStep) -> Program[JournalState]:
    """Makes one change to an existing journal, with all writers fenced."""

    def attempt() -> Program[JournalState | None]:
        found = yield from me.fresh_or_none()
        if found is None:
            raise JournalNotFormatted(me.journal_id)
        sealed = yield from _fence_all(me, found)
        assert sealed is not None
        state = step(sealed)
        return found if state == found else (yield from me.swap(state))

    state = yield from me.until_swapped(attempt)
    _forget(me)
    return state


def _forget(me: Memory) -> None:
    """Clears the open segment, and what is known of archived segments, from this acceptor's memory."""
    me.open = None
    me.archived.clear()
