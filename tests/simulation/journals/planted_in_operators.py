"""Rules of syncing and joining broken on purpose, one at a time; each says what it is about.

What no seed finds is shown by test_joining_schedules.py, call by call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metadata.records.journal_record import JournalState
from qjm_compat.acceptor.programs import recovery, state_transitions, sync_programs
from qjm_compat.acceptor.programs.acceptor_effects import Copied, DropLedger
from qjm_compat.acceptor.programs.acceptor_memory import Memory
from qjm_compat.acceptor.programs.machine import PROGRAMS
from qjm_compat.acceptor.programs.sync_programs import SyncOutcome
from qjm_compat.requests import PrepareRecovery, RemoteEditLog
from qjm_compat.sync import joining
from tests.simulation.engine.planted import Real, around, bug, instead_of

from . import operators

Patch = pytest.MonkeyPatch


# --- joining --------------------------------------------------------------------------------------------


@around(operators, "format_to_join", within=600, known=66)
def joins_without_what_is_in_progress(format_to_join: Real, *about: Any) -> Any:
    """J3: an acceptor that has forgotten an edit says that there is none."""
    return replace(format_to_join(*about), joined_behind=0)


@instead_of(joining, "_check_finalized", within=40_000, known=7270)
def joins_before_the_others_are_up_to_date(held: Any, names: Any) -> None:
    """J3: a majority of the new one and of one that lags lacks what is finalized."""


@around(operators, "make_room_for_another", within=8_000, known=974)
def makes_no_room(make: Real, me: Memory, epochs_above: int) -> Any:
    """J1: an epoch that the lost acceptor had promised is promised to another."""
    held = yield from make(me, epochs_above)
    assert me.stored is not None
    yield from me.swap(replace(me.stored.state, epochs_above=0))
    return held


@bug(within=600, known=46)
def tells_what_it_cannot_know(patch: Patch) -> None:
    """J3: one that joined in the middle of a segment takes part in its recovery."""
    prepare = recovery.prepare_recovery

    def broken(me: Memory, request: PrepareRecovery) -> Any:
        state = yield from me.fresh()
        if state.joined_behind:
            yield from me.swap(replace(state, joined_behind=0))
        return (yield from prepare(me, request))

    patch.setitem(PROGRAMS, PrepareRecovery, broken)


# --- taking in ------------------------------------------------------------------------------------------


@around(state_transitions, "taken_in", within=20_000, known=2677)
def forgets_what_it_has_finalized_last(taken_in: Real, state: JournalState, *which: Any) -> Any:
    """J3: a new writer asks for the latest segment, and is told of an earlier one."""
    return replace(taken_in(state, *which), last_finalized_start=state.last_finalized_start)


@instead_of(sync_programs, "_vouched", within=20_000, known=1468)
def takes_in_what_was_dropped(me: Memory, state: JournalState, finalized: Any) -> Any:
    """What a discard, a rollback or a format dropped comes back from an acceptor that it has not reached."""
    yield from ()


@instead_of(sync_programs, "_finalized_here", within=500, known=26)
def takes_a_segment_twice(me: Memory, state: JournalState, wanted: RemoteEditLog) -> Any:
    """J4: what is finalized is replaced."""
    yield from ()


@around(sync_programs, "_segment_of", within=500, known=228)
def replaces_without_a_fence(
    segment_of: Real, me: Memory, state: JournalState, wanted: RemoteEditLog, copy: Copied | None
) -> Any:
    """The copy of a stale segment is called finalized at an end that its ledger does not have."""
    own = state_transitions.segment_at(state, wanted.start_txid)
    if own is not None and own.writer_epoch == wanted.writer_epoch:
        return replace(own, end_txid=wanted.end_txid, finalized=True)
    return segment_of(me, state, wanted, copy)


# --- beside others --------------------------------------------------------------------------------------


@instead_of(recovery, "_accepted", within=500, known=228)
def a_recovery_accepts_over_what_came(me: Any, seen: Any, now: Any, request: Any, copy: Any) -> Any:
    """J4: a finalized segment is in progress again."""
    return state_transitions.accepted(now, request.state, request.info.epoch, copy)


@around(sync_programs, "_take", within=500, known=32)
def deletes_a_copy_that_stands(take: Real, me: Memory, wanted: RemoteEditLog, copy: Copied | None) -> Any:
    """Whoever is second deletes the ledger of whoever was first."""
    taken = yield from take(me, wanted, copy)
    if taken is SyncOutcome.COPIED and copy is not None and wanted.start_txid > 1:
        yield from DropLedger(copy.ledger_id)
    return taken
