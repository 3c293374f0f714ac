"""Rules of acceptors broken on purpose, one at a time; each says what it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from metadata.records.journal_record import JournalState
from metadata.records.journal_store import VersionedState
from qjm_compat.acceptor import edits_cache
from qjm_compat.acceptor.programs import epochs, memory, recovery, segments, storage, transitions
from qjm_compat.acceptor.programs.effects import DropLedger, EndLedger, LookAtLedger, ReadState, SwapState
from qjm_compat.acceptor.programs.memory import Memory
from qjm_compat.errors import BadJournalState, JournalOutOfSync, JournalUnavailable
from qjm_compat.requests import NewEpoch, NewEpochReply, SendEdits

Patch = pytest.MonkeyPatch
Step = Callable[[JournalState], JournalState]


# --- promises -----------------------------------------------------------------------------------


def promises_without_fencing(patch: Patch) -> None:
    """A ledger of an earlier writer goes on taking edits after a new one was promised the journal."""

    def broken(me: Memory, epoch: int) -> Any:
        return (yield from epochs.still(me, epoch))

    patch.setattr(epochs, "seal", broken)


def fences_nobody(patch: Patch) -> None:
    """Not even a recovery ends ledgers: their ends are those that were seen."""
    patch.setattr(epochs, "EndLedger", LookAtLedger)


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

    patch.setitem(_programs(), NewEpoch, broken)


def does_not_look_at_epochs(patch: Patch) -> None:
    """Whoever asks is let in."""
    patch.setattr(Memory, "refuse_stale", lambda self, epoch, promised: None)


# --- changes of the state -----------------------------------------------------------------------


def does_not_look_at_the_epoch_again(patch: Patch) -> None:
    """A change stands though the journal was promised to another since the call was let in."""
    patch.setattr(segments, "change", _careless_change)
    patch.setattr(recovery, "change", _careless_change)


def swaps_whatever_stands(patch: Patch) -> None:
    """A compare-and-swap that does not compare."""

    def broken(state: JournalState, version: int | None) -> Any:
        found = yield ReadState()
        return (yield SwapState(state, found.version if found is not None else None))

    patch.setattr(memory, "SwapState", broken)


def deletes_the_ledger_of_a_swap_without_an_answer(patch: Patch) -> None:
    """The swap stood: the state refers to a ledger that is gone."""
    change = segments.change

    def refused(me: Memory, epoch: int, step: Step) -> Any:
        try:
            return (yield from change(me, epoch, step))
        except JournalUnavailable as error:
            raise JournalOutOfSync(str(error)) from error

    patch.setattr(segments, "change", refused)
    patch.setattr(recovery, "change", refused)
    for module in (segments, recovery):
        patch.setattr(module, "withdraw", lambda me, ledger_id, *_: DropLedger(ledger_id))


def forgets_segments_without_a_record(patch: Patch) -> None:
    """A finalized segment leaves the state before it has a record of its own."""

    def broken(me: Memory, state: JournalState) -> Any:
        me.archived |= {s.ledger_id for s in state.segments}
        yield from ()

    patch.setattr(segments, "archive_all", broken)


def purges_what_may_still_grow(patch: Patch) -> None:
    """A segment goes whose start is below the limit, wherever it ends."""
    purged = transitions.purged

    def broken(state: JournalState, keep: int) -> JournalState:
        left = tuple(s for s in state.segments if s.start_txid >= keep)
        return replace(purged(state, keep), segments=left)

    patch.setattr(transitions, "purged", broken)


def deletes_what_a_rollback_needs(patch: Patch) -> None:
    """A sweep looks at the state that stands, and not at the one to go back to."""
    patch.setattr(JournalState, "needs", lambda self, segment: self.shows(segment))


def deletes_before_the_change_stands(patch: Patch) -> None:
    """Ledgers are deleted that a swap was going to leave behind, and then did not."""
    change = segments.change

    def broken(me: Memory, epoch: int, step: Step) -> Any:
        planned = step((yield from epochs.still(me, epoch)))
        for ledger_id in planned.replaced_ledgers:
            yield from DropLedger(ledger_id)
        return (yield from change(me, epoch, step))

    patch.setattr(segments, "change", broken)


def a_rollback_takes_promises_back(patch: Patch) -> None:
    """J1: an epoch is given to a second writer."""
    rolled_back = transitions.rolled_back

    def broken(state: JournalState, previous: JournalState) -> JournalState:
        back = rolled_back(state, previous)
        return replace(back, last_promised_epoch=previous.last_promised_epoch)

    patch.setattr(transitions, "rolled_back", broken)


def a_format_takes_promises_back(patch: Patch) -> None:
    """J1: as Hadoop does it."""
    formatted = transitions.formatted
    patch.setattr(
        transitions,
        "formatted",
        lambda old, storage, *joins: replace(formatted(old, storage, *joins), last_promised_epoch=0),
    )


def a_discard_forgets_what_it_discarded(patch: Patch) -> None:
    """Records of segments that were discarded show again."""
    patch.setattr(transitions, "_dropping", lambda state, dropped: state)


def a_discard_minds_what_is_in_progress(patch: Patch) -> None:
    """A copy that was overruled reaches further than what was chosen, and a discard is refused for it."""
    kept_before = storage._kept_before

    def broken(me: Memory, state: JournalState, start: int) -> Any:
        for segment in state.segments:
            if segment.end_txid is not None and segment.start_txid < start <= segment.end_txid:
                raise BadJournalState(f"Cannot discard from txid {start} on: it lies inside {segment}")
        return (yield from kept_before(me, state, start))

    patch.setattr(storage, "_kept_before", broken)


# --- segments -----------------------------------------------------------------------------------


def finalizes_at_any_end(patch: Patch) -> None:
    """A copy that lags is finalized as if it were whole."""

    def broken(me: Memory, segment: Any, end: int) -> Any:
        if segment.end_txid is None:
            yield from EndLedger(segment.ledger_id)

    patch.setattr(segments, "_check_end", broken)


def finalizes_what_it_has_not_accepted(patch: Patch) -> None:
    """Another writer's edits end at the same txid as those that were chosen."""
    patch.setattr(
        segments,
        "_finalized",
        lambda me, state, segment, end, *_: transitions.finalized(state, segment.start_txid, end),
    )


def appends_behind_a_gap(patch: Patch) -> None:
    """A batch is taken in though the one before it never came."""
    patch.setattr(Memory, "segment_for", lambda self, request: self.open or segment_for(self, request))


segment_for = Memory.segment_for


# --- recovery -----------------------------------------------------------------------------------


def accepts_in_two_steps(patch: Patch) -> None:
    """Q8: a crash leaves the choice without the edits that were chosen."""
    change = segments.change

    def broken(me: Memory, epoch: int, step: Step) -> Any:
        def choice_alone(now: JournalState) -> JournalState:
            return replace(step(now), segments=now.segments, replaced_ledgers=now.replaced_ledgers)

        yield from change(me, epoch, choice_alone)
        return (yield from change(me, epoch, step))

    patch.setattr(recovery, "change", broken)


def equal_ends_are_equal(patch: Patch) -> None:
    """Q15: two writers wrote as far, each at another minority."""
    patch.setattr(
        recovery, "_is_same", lambda here, wanted: here is not None and here.end_txid == wanted.end_txid
    )


def blames_a_writer_for_what_a_later_one_decided(patch: Patch) -> None:
    """What refuses an acceptance was done by a later writer, and the earlier one is told that it broke a rule."""

    def broken(me: Memory, epoch: int) -> Any:
        yield from ()

    patch.setattr(recovery, "still", broken)


def a_cache_keeps_what_was_overruled(patch: Patch) -> None:
    """A follower is given what an earlier writer wrote, behind what a later one did."""

    def broken(self: edits_cache.EditsCache, batch: Any, layout_version: int) -> None:
        last = self.last_txid
        if last is not None and batch.first_txid != last + 1:
            return
        self._layout_version, self._writer_epoch = layout_version, batch.writer_epoch
        self._batches.append(batch)

    patch.setattr(edits_cache.EditsCache, "store", broken)


def batches_change_the_state(patch: Patch) -> None:
    """Every batch is a swap of the metadata."""
    admit_edits = segments.admit_edits

    def broken(me: Memory, request: SendEdits) -> Any:
        segment = yield from admit_edits(me, request)
        state = yield from me.fresh()
        yield from me.swap(replace(state, committed_txid=None))
        return segment

    patch.setattr("tests.simulation.journals.server.admit_edits", broken)


def _careless_change(me: Memory, epoch: int, step: Step) -> Any:
    for _ in range(memory.CONFLICTS_MAX):
        state = step((yield from me.fresh()))
        if (yield from me.swap(state)):
            return state
    raise me.gave_up()


def _programs() -> Any:
    from qjm_compat.acceptor.programs.machine import PROGRAMS

    return PROGRAMS
