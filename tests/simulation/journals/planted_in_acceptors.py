"""Rules of acceptors broken on purpose, one at a time; each says what it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from metadata.records.journal_record import JournalState
from metadata.records.journal_store import VersionedState
from qjm_compat.acceptor import edits_cache
from qjm_compat.acceptor.programs import (
    acceptor_memory,
    epochs,
    recovery,
    segment_programs,
    state_transitions,
    storage,
)
from qjm_compat.acceptor.programs.acceptor_effects import (
    DropLedger,
    EndLedger,
    LookAtLedger,
    ReadState,
    SwapState,
)
from qjm_compat.acceptor.programs.acceptor_memory import Memory
from qjm_compat.acceptor.programs.machine import PROGRAMS
from qjm_compat.errors import BadJournalState, JournalOutOfSync, JournalUnavailable
from qjm_compat.requests import NewEpoch, NewEpochReply, SendEdits
from tests.simulation.engine.planted import Real, around, bug, instead_of, together
from tests.simulation.journals import server

Patch = pytest.MonkeyPatch
Step = Callable[[JournalState], JournalState]


# --- promises -----------------------------------------------------------------------------------


@instead_of(epochs, "seal", within=30, known=1)
def promises_without_fencing(me: Memory, epoch: int) -> Any:
    """A ledger of an earlier writer goes on taking edits after a new one was promised the journal."""
    return (yield from epochs.still(me, epoch))


@bug(within=30, known=2)
def fences_nobody(patch: Patch) -> None:
    """Not even a recovery ends ledgers: their ends are those that were seen."""
    patch.setattr(epochs, "EndLedger", LookAtLedger)


@bug(within=200, known=22)
def keeps_a_promise_in_memory(patch: Patch) -> None:
    """A promise is gone with its process."""
    swap, fresh = Memory.swap, Memory.fresh
    kept: dict[int, tuple[Memory, int]] = {}

    def broken_swap(self: Memory, state: JournalState) -> Any:
        stored = self.stored
        if stored and stored.state == replace(state, last_promised_epoch=stored.state.last_promised_epoch):
            kept[id(self)] = self, state.last_promised_epoch
            self.stored = VersionedState(state, stored.version)
            return True
        return (yield from swap(self, state))

    def broken_fresh(self: Memory) -> Any:
        state = yield from fresh(self)
        epoch = max(state.last_promised_epoch, kept.get(id(self), (self, 0))[1])
        return replace(state, last_promised_epoch=epoch)

    patch.setattr(Memory, "swap", broken_swap)
    patch.setattr(Memory, "fresh", broken_fresh)


@bug(within=300, known=54)
def promises_the_same_epoch_twice(patch: Patch) -> None:
    """An epoch that was promised is promised again."""
    new_epoch = epochs.new_epoch

    def broken(me: Memory, request: NewEpoch) -> Any:
        state = yield from me.fresh()
        if request.epoch == state.last_promised_epoch:
            state = yield from epochs.seal(me, request.epoch)
            starts = [s.start_txid for s in state.segments]
            return NewEpochReply(max((*starts, state.last_finalized_start)) or None)
        return (yield from new_epoch(me, request))

    patch.setitem(PROGRAMS, NewEpoch, broken)


@instead_of(Memory, "refuse_stale", within=30, known=2)
def does_not_look_at_epochs(self: Memory, epoch: Any, promised: Any) -> None:
    """Whoever asks is let in."""


# --- changes of the state -----------------------------------------------------------------------


@bug(within=10_000, known=3494)
def does_not_look_at_the_epoch_again(patch: Patch) -> None:
    """A change stands though the journal was promised to another since the call was let in."""
    patch.setattr(segment_programs, "change", _careless_change)
    patch.setattr(recovery, "change", _careless_change)


@instead_of(acceptor_memory, "SwapState", within=300, known=15)
def swaps_whatever_stands(state: JournalState, version: int | None) -> Any:
    """A compare-and-swap that does not compare."""
    found = yield ReadState()
    return (yield SwapState(state, found.version if found is not None else None))


@bug(within=1_000, known=93)
def deletes_the_ledger_of_a_swap_without_an_answer(patch: Patch) -> None:
    """The swap stood: the state refers to a ledger that is gone."""
    change = segment_programs.change

    def refused(me: Memory, epoch: int, step: Step) -> Any:
        try:
            return (yield from change(me, epoch, step))
        except JournalUnavailable as error:
            raise JournalOutOfSync(str(error)) from error

    patch.setattr(segment_programs, "change", refused)
    patch.setattr(recovery, "change", refused)
    for module in (segment_programs, recovery):
        patch.setattr(module, "withdraw", lambda me, ledger_id, *_: DropLedger(ledger_id))


@instead_of(segment_programs, "archive_all", within=30, known=1)
def forgets_segments_without_a_record(me: Memory, state: JournalState) -> Any:
    """A finalized segment leaves the state before it has a record of its own."""
    me.archived |= {s.ledger_id for s in state.segments}
    yield from ()


@around(state_transitions, "purged", within=3_000, known=1121)
def purges_what_may_still_grow(purged: Real, state: JournalState, keep: int) -> Any:
    """A segment goes whose start is below the limit, wherever it ends."""
    left = tuple(s for s in state.segments if s.start_txid >= keep)
    return replace(purged(state, keep), segments=left)


@instead_of(JournalState, "needs", within=2_000, known=24)
def deletes_what_a_rollback_needs(self: JournalState, segment: Any) -> Any:
    """A sweep looks at the state that stands, and not at the one to go back to."""
    return self.shows(segment)


@around(segment_programs, "change", within=300, known=14)
def deletes_before_the_change_stands(change: Real, me: Memory, epoch: int, step: Step) -> Any:
    """Ledgers are deleted that a swap was going to leave behind, and then did not."""
    planned = step((yield from epochs.still(me, epoch)))
    for ledger_id in planned.replaced_ledgers:
        yield from DropLedger(ledger_id)
    return (yield from change(me, epoch, step))


@around(state_transitions, "rolled_back", within=1_000, known=24)
def a_rollback_takes_promises_back(rolled_back: Real, state: JournalState, previous: JournalState) -> Any:
    """J1: an epoch is given to a second writer."""
    back = rolled_back(state, previous)
    return replace(back, last_promised_epoch=previous.last_promised_epoch)


@around(state_transitions, "formatted", within=1_000, known=86)
def a_format_takes_promises_back(formatted: Real, old: Any, storage: Any, *joins: Any) -> Any:
    """J1: as Hadoop does it."""
    return replace(formatted(old, storage, *joins), last_promised_epoch=0)


@instead_of(state_transitions, "_dropping", within=300, known=22)
def a_discard_forgets_what_it_discarded(state: Any, dropped: Any) -> Any:
    """Records of segments that were discarded show again."""
    return state


@around(storage, "_kept_before")
def a_discard_minds_what_is_in_progress(
    kept_before: Real, me: Memory, state: JournalState, start: int
) -> Any:
    """A copy that was overruled reaches further than what was chosen, and a discard is refused for it."""
    for segment in state.segments:
        if segment.end_txid is not None and segment.start_txid < start <= segment.end_txid:
            raise BadJournalState(f"Cannot discard from txid {start} on: it lies inside {segment}")
    return (yield from kept_before(me, state, start))


# --- segments -----------------------------------------------------------------------------------


@instead_of(segment_programs, "_check_end")
def finalizes_at_any_end(me: Memory, segment: Any, end: int) -> Any:
    """A copy that lags is finalized as if it were whole."""
    if segment.end_txid is None:
        yield from EndLedger(segment.ledger_id)


@instead_of(segment_programs, "_finalized")
def finalizes_what_it_has_not_accepted(me: Any, state: Any, segment: Any, end: Any, *_: Any) -> Any:
    """Another writer's edits end at the same txid as those that were chosen."""
    return state_transitions.finalized(state, segment.start_txid, end)


@instead_of(Memory, "segment_for", within=2_000, known=356)
def appends_behind_a_gap(self: Memory, request: Any) -> Any:
    """A batch is taken in though the one before it never came."""
    return self.open or segment_for(self, request)


segment_for = Memory.segment_for


# --- recovery -----------------------------------------------------------------------------------


@around(recovery, "change", within=4_000, known=376)
def accepts_in_two_steps(change: Real, me: Memory, epoch: int, step: Step) -> Any:
    """Q8: a crash leaves the choice without the edits that were chosen."""

    def choice_alone(now: JournalState) -> JournalState:
        return replace(step(now), segments=now.segments, replaced_ledgers=now.replaced_ledgers)

    yield from change(me, epoch, choice_alone)
    return (yield from change(me, epoch, step))


@instead_of(recovery, "_is_same", within=1_000, known=12)
def equal_ends_are_equal(here: Any, wanted: Any) -> Any:
    """Q15: two writers wrote as far, each at another minority."""
    return here is not None and here.end_txid == wanted.end_txid


@instead_of(recovery, "still")
def blames_a_writer_for_what_a_later_one_decided(me: Memory, epoch: int) -> Any:
    """What refuses an acceptance was done by a later writer, and the earlier one is told that it broke a rule."""
    yield from ()


@instead_of(edits_cache.EditsCache, "store", within=15_000, known=9792)
def a_cache_keeps_what_was_overruled(self: edits_cache.EditsCache, batch: Any, layout_version: int) -> None:
    """A follower is given what an earlier writer wrote, behind what a later one did."""
    last = self.last_txid
    if last is not None and batch.first_txid != last + 1:
        return
    self._layout_version, self._writer_epoch = layout_version, batch.writer_epoch
    self._batches.append(batch)


@around(server, "admit_edits", within=30, known=1)
def batches_change_the_state(admit_edits: Real, me: Memory, request: SendEdits) -> Any:
    """Every batch is a swap of the metadata."""
    segment = yield from admit_edits(me, request)
    state = yield from me.fresh()
    yield from me.swap(replace(state, committed_txid=None))
    return segment


def _careless_change(me: Memory, epoch: int, step: Step) -> Any:
    def attempt() -> Any:
        return (yield from me.swap(step((yield from me.fresh()))))

    return (yield from me.until_swapped(attempt))


FINALIZES_ANYTHING = together(
    finalizes_at_any_end, finalizes_what_it_has_not_accepted, within=5_000, known=1549
)
"""Each covers for the other: an acceptor that has what was accepted has its end, too."""
