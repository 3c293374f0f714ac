"""Rules of syncing and joining broken on purpose, one at a time; each says what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metadata.records.journal_record import JournalState
from qjm_compat.acceptor.programs import recovery, syncing, transitions
from qjm_compat.acceptor.programs.effects import Copied, DropLedger
from qjm_compat.acceptor.programs.memory import Memory
from qjm_compat.acceptor.programs.syncing import Taken
from qjm_compat.requests import PrepareRecovery, RemoteEditLog
from qjm_compat.sync import joining
from tests.simulation.engine.planted import Plant

Patch = pytest.MonkeyPatch


# --- joining --------------------------------------------------------------------------------------------


def joins_without_what_is_in_progress(patch: Patch) -> None:
    """J3: an acceptor that has forgotten an edit says that there is none."""
    _joins_with(patch, joined_behind=0)


def joins_before_the_others_are_up_to_date(patch: Patch) -> None:
    """J3: a majority of the new one and of one that lags lacks what is finalized."""
    patch.setattr(joining, "_check_finalized", lambda held, names: None)


def makes_no_room(patch: Patch) -> None:
    """J1: an epoch that the lost acceptor had promised is promised to another."""
    make = syncing.make_room_for_another

    def broken(me: Memory, epochs_above: int) -> Any:
        held = yield from make(me, epochs_above)
        assert me.stored is not None
        yield from me.swap(replace(me.stored.state, epochs_above=0))
        return held

    patch.setattr("tests.simulation.journals.operators.make_room_for_another", broken)


def tells_what_it_cannot_know(patch: Patch) -> None:
    """J3: one that joined in the middle of a segment takes part in its recovery."""
    prepare = recovery.prepare_recovery

    def broken(me: Memory, request: PrepareRecovery) -> Any:
        state = yield from me.fresh()
        if state.joined_behind:
            yield from me.swap(replace(state, joined_behind=0))
        return (yield from prepare(me, request))

    patch.setitem(_programs(), PrepareRecovery, broken)


# --- taking in ------------------------------------------------------------------------------------------


def forgets_what_it_has_finalized_last(patch: Patch) -> None:
    """J3: a new writer asks for the latest segment, and is told of an earlier one."""
    taken_in = transitions.taken_in

    def broken(state: JournalState, *which: Any) -> JournalState:
        return replace(taken_in(state, *which), last_finalized_start=state.last_finalized_start)

    patch.setattr(transitions, "taken_in", broken)


def takes_in_what_was_dropped(patch: Patch) -> None:
    """What a discard, a rollback or a format dropped comes back from an acceptor that it has not reached."""

    def broken(me: Memory, state: JournalState, finalized: Any) -> Any:
        yield from ()

    patch.setattr(syncing, "_vouched", broken)


def takes_a_segment_twice(patch: Patch) -> None:
    """J4: what is finalized is replaced."""

    def broken(me: Memory, state: JournalState, wanted: RemoteEditLog) -> Any:
        yield from ()

    patch.setattr(syncing, "_finalized_here", broken)


def replaces_without_a_fence(patch: Patch) -> None:
    """The copy of a stale segment is called finalized at an end that its ledger does not have."""
    segment_of = syncing._segment_of

    def broken(me: Memory, state: JournalState, wanted: RemoteEditLog, copy: Copied | None) -> Any:
        own = transitions.segment_at(state, wanted.start_txid)
        if own is not None and own.writer_epoch == wanted.writer_epoch:
            return replace(own, end_txid=wanted.end_txid, finalized=True)
        return segment_of(me, state, wanted, copy)

    patch.setattr(syncing, "_segment_of", broken)


# --- beside others --------------------------------------------------------------------------------------


def a_recovery_accepts_over_what_came(patch: Patch) -> None:
    """J4: a finalized segment is in progress again."""
    patch.setattr(
        recovery,
        "_accepted",
        lambda me, seen, now, request, copy: transitions.accepted(
            now, request.state, request.info.epoch, copy
        ),
    )


def deletes_a_copy_that_stands(patch: Patch) -> None:
    """Whoever is second deletes the ledger of whoever was first."""
    take = syncing._take

    def broken(me: Memory, wanted: RemoteEditLog, copy: Copied | None) -> Any:
        taken = yield from take(me, wanted, copy)
        if taken is Taken.COPIED and copy is not None and wanted.start_txid > 1:
            yield from DropLedger(copy.ledger_id)
        return taken

    patch.setattr(syncing, "_take", broken)


def _joins_with(patch: Patch, **changes: Any) -> None:
    format_to_join = joining.format_to_join

    def broken(*arguments: Any) -> Any:
        return replace(format_to_join(*arguments), **changes)

    patch.setattr("tests.simulation.journals.operators.format_to_join", broken)


def _programs() -> Any:
    from qjm_compat.acceptor.programs.machine import PROGRAMS

    return PROGRAMS


PLANTS = (
    Plant((joins_without_what_is_in_progress,), 300, known=66),
    Plant((joins_before_the_others_are_up_to_date,), 20_000, known=7270),
    Plant((makes_no_room,), 4_000, known=974),
    Plant((tells_what_it_cannot_know,), 300, known=46),
    Plant((forgets_what_it_has_finalized_last,), 10_000, known=2677),
    Plant((takes_in_what_was_dropped,), 10_000, known=1468),
    Plant((takes_a_segment_twice,), 200, known=26),
    Plant((replaces_without_a_fence,), 200, known=1),
    Plant((a_recovery_accepts_over_what_came,), 200, known=1),
    Plant((deletes_a_copy_that_stands,), 200, known=1),
)
"""What no seed finds is shown by test_directed_schedules.py, call by call."""
