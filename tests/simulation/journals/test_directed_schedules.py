"""Q8-Q14, and what else a reader or a recovery must not believe: one schedule each, call by call."""

from __future__ import annotations

from typing import Any

import pytest

from qjm_compat.acceptor.programs.acceptor_effects import CreateLedger, SwapState
from qjm_compat.acceptor.programs.machine import program
from qjm_compat.acceptor.programs.state_transitions import promised
from qjm_compat.errors import (
    BadRequest,
    JournalError,
    JournalOutOfSync,
    JournalUnavailable,
    NewerTxid,
    RuleViolated,
    StaleEpoch,
)
from qjm_compat.manager.proposer import best_source
from qjm_compat.manager.segments_seen import durable_edits
from qjm_compat.requests import (
    AcceptRecovery,
    GetJournaledEdits,
    Heartbeat,
    JournaledEdits,
    PrepareRecovery,
    PrepareReply,
    RequestInfo,
    SegmentState,
    StartLogSegment,
)
from tests.qjm_compat.model import ModelAcceptor

from .edits import frames
from .three import QUORUM, A, B, C, Three, perform_until

EFFECTS_OF_ACCEPT_MAX = 20


# --- Q8 … Q14 -----------------------------------------------------------------------------------


def one_behind() -> Three:
    """Edits 1-2 are at B and C, edit 1 alone at A."""
    three = Three()
    three.promise(1, A, B, C)
    three.start(1, 1, A, B, C)
    three.send(1, 1, 1, 1, A, B, C)
    three.send(1, 1, 2, 1, B, C)
    return three


def test_a_crash_anywhere_in_accepting_leaves_all_of_it_or_nothing() -> None:
    """Q8."""
    wanted = SegmentState(1, 2, True, 1)
    outcomes = set()
    for stop_at in range(EFFECTS_OF_ACCEPT_MAX):
        three = one_behind()
        three.promise(2, A, B, C)
        request = AcceptRecovery(info=three.info(2), state=wanted, source="b")
        is_whole = perform_until(three.acceptors[A], request, stop_at) < stop_at
        three.restart(A)
        three.promise(3, A, B, C)
        reply = three.prepare(3, 1, A)[A]
        has_all = reply == PrepareReply(wanted, 2, 1, reply.last_committed_txid)
        has_nothing = reply == PrepareReply(SegmentState(1, 1, True, 1), None, 1, reply.last_committed_txid)
        assert has_all or has_nothing
        assert three.content(A, 1) == frames(1, 1, 2 if has_all else 1)
        outcomes.add((has_all, is_whole))
    assert {has_all for has_all, _ in outcomes} == {True, False}
    assert (False, True) not in outcomes


def test_a_call_that_comes_again_is_refused_and_forgets_nothing() -> None:
    """Q9."""
    three = Three()
    three.promise(1, A)
    begin = StartLogSegment(info=three.info(1), txid=1)
    three.acceptors[A].answer(begin)
    three.send(1, 1, 1, 1, A)
    with pytest.raises(JournalOutOfSync, match="IPC serial"):
        three.acceptors[A].answer(begin)
    assert three.content(A, 1) == frames(1, 1, 1)
    three.send(1, 1, 2, 1, A)


def test_what_is_committed_is_not_accepted_away() -> None:
    """Q10."""
    three = one_behind()
    three.acceptors[B].answer(Heartbeat(info=three.info(1, committed=2)))
    three.promise(2, A, B)
    with pytest.raises(RuleViolated, match="already-committed"):
        three.accept(2, SegmentState(1, 1, True, 1), A, B)
    with pytest.raises(RuleViolated, match="was committed"):
        best_source(
            {
                A: PrepareReply(SegmentState(1, 1, True, 1), None, 1, None),
                B: PrepareReply(None, None, 1, 2),
            }
        )
    assert three.content(B, 1) == frames(1, 1, 2)


def test_a_segment_without_edits_never_was_and_may_begin_again() -> None:
    """Q11."""
    three = Three()
    three.promise(1, A, B, C)
    three.start(1, 1, A)
    three.promise(2, A, B, C)
    assert {reply.segment for reply in three.prepare(2, 1, A, B, C).values()} == {None}
    three.start(2, 1, A, B, C)
    three.send(2, 1, 1, 1, A, B, C)
    assert three.seen(A, B) == [(1, 1)]


def test_a_writer_whose_finalize_and_start_were_missed_does_not_append_to_the_old_segment() -> None:
    """Q12."""
    three = Three()
    three.promise(1, A, B, C)
    three.start(1, 1, A, B, C)
    three.send(1, 1, 1, 1, A, B, C)
    three.finalize(1, 1, 1, A, B)
    three.start(1, 2, A, B)
    with pytest.raises(JournalOutOfSync, match="current segment is 1"):
        three.send(1, 2, 2, 1, C)
    with pytest.raises(JournalOutOfSync, match="no segment open"):
        three.send(1, 1, 2, 1, C)
    assert three.content(C, 1) == frames(1, 1, 1)


def test_an_acceptor_that_lags_says_so_and_not_that_there_is_nothing() -> None:
    """Q13."""
    three = one_behind()
    with pytest.raises(NewerTxid, match="is 1"):
        three.acceptors[A].answer(GetJournaledEdits(3, 10))
    assert three.acceptors[A].answer(GetJournaledEdits(2, 10)).txn_count == 0
    found = durable_edits({n: three.acceptors[n].answer(GetJournaledEdits(2, 10)) for n in (A, B, C)}, QUORUM)
    assert found is not None
    assert (found[0].records, found[1]) == (frames(1, 2, 1), 1)


def test_only_what_a_quorum_has_is_shown_while_it_is_written() -> None:
    """Q14."""
    three = one_behind()
    assert three.seen(A, B, C) == [(1, 2)]
    assert three.seen(A, B) == [(1, 1)]
    three.send(1, 1, 3, 1, B, committed=2)
    assert three.seen(A, B) == [(1, 2)], "B was told that a quorum has 2"
    replies = {n: three.acceptors[n].answer(GetJournaledEdits(2, 10)) for n in (A, B)}
    assert durable_edits(replies, QUORUM) is None


# --- what else must not be believed -------------------------------------------------------------


def test_what_one_recovery_accepted_and_a_writer_left_elsewhere_is_not_yet_on_a_quorum() -> None:
    """Three recoveries, of which the second reaches one acceptor: the third chooses the shorter end."""
    three = Three()
    three.promise(1, A, B, C)
    three.start(1, 10, A, B, C)
    three.send(1, 10, 10, 1, A, B, C)
    three.send(1, 10, 11, 1, A)
    three.promise(2, B, C)
    three.accept(2, *three.chosen(2, 10, B, C), C)
    three.promise(3, A, B)
    state, source = three.chosen(3, 10, A, B)
    assert state.end_txid == 11
    three.accept(3, state, source, B)
    assert (10, 11) not in three.seen(A, B)
    three.promise(4, A, C)
    assert three.chosen(4, 10, A, C)[0].end_txid == 10


def test_followers_count_copies_of_different_recoveries_apart() -> None:
    left = JournaledEdits(2, -63, frames(1, 10, 2), writer_epoch=1)
    accepted = JournaledEdits(2, -63, frames(1, 10, 2), writer_epoch=1, accepted_in_epoch=3)
    assert durable_edits({A: left, B: accepted}, QUORUM) is None
    assert durable_edits({A: left, B: accepted, C: left}, QUORUM) == (left, 2)
    assert durable_edits({A: accepted, B: accepted}, QUORUM) == (accepted, 2)


@pytest.mark.parametrize("happens", [True, False])
def test_the_ledger_of_a_start_whose_swap_was_never_answered_is_kept(happens: bool) -> None:
    three = Three()
    three.promise(1, A)
    acceptor = three.acceptors[A]
    steps = program(acceptor.memory, StartLogSegment(info=three.info(1), txid=1))
    outcome, has_ledger = None, False
    with pytest.raises(JournalUnavailable):
        while True:
            effect = steps.send(outcome)
            if has_ledger and isinstance(effect, SwapState):
                if happens:
                    acceptor.perform(effect)
                steps.throw(JournalUnavailable("no answer"))
            outcome, has_ledger = acceptor.perform(effect), has_ledger or isinstance(effect, CreateLedger)
    assert len(acceptor.disk.ledgers) == 1
    three.restart(A)
    three.promise(2, A)
    three.start(2, 1, A)


def test_the_ledger_of_a_start_that_another_writer_overtook_stays_while_the_state_names_it() -> None:
    """Its swap stood, and looks like another's by the time that it is answered."""
    three = Three()
    three.promise(1, A)
    acceptor = three.acceptors[A]
    steps = program(acceptor.memory, StartLogSegment(info=three.info(1), txid=1))
    outcome: Any = None
    has_ledger = False
    other = ModelAcceptor("ns1", "a", three.disks)
    with pytest.raises(StaleEpoch):
        while True:
            effect = steps.send(outcome)
            outcome = acceptor.perform(effect)
            if has_ledger and isinstance(effect, SwapState):
                overtaken = SwapState(promised(outcome.state, 2), outcome.version)
                assert acceptor.perform(overtaken) is not None
                outcome, has_ledger = None, False
            has_ledger = has_ledger or isinstance(effect, CreateLedger)
    assert other.answer(PrepareRecovery(info=RequestInfo(2, 0), segment_txid=1)).segment is None
    other.answer(StartLogSegment(info=RequestInfo(2, 1), txid=1))


def test_a_call_that_no_writer_makes_changes_nothing() -> None:
    three = one_behind()
    three.promise(2, A, B, C)
    with pytest.raises(BadRequest, match="bad recovery state"):
        three.accept(2, SegmentState(1, 0, True, 1), B, A)
    with pytest.raises(JournalError, match="less than the last promised"):
        three.finalize(1, 1, 1, A)
    assert three.content(A, 1) == frames(1, 1, 1)
