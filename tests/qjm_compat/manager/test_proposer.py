"""The proposer's programs: what is asked of whom, in which order, and what ends them.

J5: a segment begins only where the one before it was finalized at a quorum. What readers make of a gap:
test_segments_seen.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from qjm_compat.config import JournalConfig
from qjm_compat.errors import BadJournalState, JournalUnavailable, QuorumFailed, QuorumTimeout, RuleViolated
from qjm_compat.manager.proposer import Proposer
from qjm_compat.manager.proposer_effects import Acceptors, Answers, CallAcceptors, Need, Program, SetEpoch
from qjm_compat.requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    GetJournalState,
    IsFormatted,
    NewEpoch,
    PrepareRecovery,
    SegmentState,
    StartLogSegment,
)
from tests.qjm_compat.acceptor.one_writer import formatted
from tests.qjm_compat.by_hand import ALL, NAMES, ThreeDisks, WriterByHand
from tests.qjm_compat.journals import NAMESPACE
from tests.support.aio import run


def new_journal() -> ThreeDisks:
    three = ThreeDisks()

    async def all_formatted() -> None:
        for acceptor in three.acceptors:
            await formatted(acceptor)

    run(all_formatted())
    return three


def recovered(three: ThreeDisks | None = None, reaches: Collection[int] = ALL) -> WriterByHand:
    """The active writer, of a new journal unless it is of this one."""
    writer = WriterByHand(three or new_journal(), reaches)
    writer.recover()
    return writer


def asked(writer: WriterByHand) -> list[type[Any]]:
    return [type(ask.request) for ask in writer.asked]


def test_the_first_writer_of_a_journal_has_nothing_to_recover() -> None:
    writer = WriterByHand(new_journal())
    assert writer.recover() is None
    assert asked(writer) == [GetJournalState, NewEpoch]
    assert writer.proposer.epoch == 1


def test_a_recovery_prepares_accepts_and_finalizes_the_latest_segment() -> None:
    three = new_journal()
    first = recovered(three)
    first.start(1)
    first.send(1, 1, 3)
    writer = WriterByHand(three)
    assert writer.recover() == SegmentState(1, 3, True, 1)
    assert asked(writer)[2:] == [PrepareRecovery, AcceptRecovery, FinalizeLogSegment]
    assert [ask.need for ask in writer.asked] == [Need.MAJORITY] * 5


def test_an_epoch_is_above_all_that_a_majority_knows() -> None:
    three = new_journal()
    WriterByHand(three, {0, 1}).recover()
    second = recovered(three, {1, 2})
    assert second.proposer.epoch == 2
    assert [channel.epoch for channel in second.channels] == [2, 2, 2], "those not reached included"


def test_an_epoch_that_a_majority_did_not_promise_is_nobodys() -> None:
    writer = WriterByHand(new_journal())
    writer.lost = lambda number, request: number > 0 and isinstance(request, NewEpoch)
    with pytest.raises(
        QuorumFailed, match=r"newEpoch\(1\): Got too many exceptions to achieve quorum size 2/3"
    ):
        writer.recover()
    assert writer.proposer.epoch is None
    assert not writer.proposer.is_active_writer


def test_a_writer_gets_an_epoch_once() -> None:
    writer = recovered()
    with pytest.raises(BadJournalState, match="already has epoch 1"):
        writer.recover()


def test_nothing_is_begun_before_the_recovery() -> None:
    writer = WriterByHand(new_journal())
    with pytest.raises(BadJournalState, match="must recover segments before starting a new one"):
        writer.start(1)
    writer.run(writer.proposer.create_new_unique_epoch(NAMESPACE))
    with pytest.raises(BadJournalState, match="must recover segments before starting a new one"):
        writer.start(1)


def test_a_recovery_that_failed_leaves_no_active_writer() -> None:
    three = new_journal()
    first = recovered(three)
    first.start(1)
    first.send(1, 1)
    writer = WriterByHand(three)
    writer.lost = lambda number, request: number > 0 and isinstance(request, FinalizeLogSegment)
    with pytest.raises(QuorumFailed, match=r"finalizeLogSegment\(1-1\)"):
        writer.recover()
    with pytest.raises(BadJournalState):
        writer.start(2)


def test_J5_a_segment_begins_only_when_this_writer_has_finalized_the_one_before() -> None:
    writer = recovered()
    writer.start(1)
    for first_txid in (1, 2, 30):  # also before anything is sent: it may be there, and the answer lost
        with pytest.raises(BadJournalState, match="segment 1 is not finalized"):
            writer.start(first_txid)
    writer.send(1, 1, 3)
    with pytest.raises(BadJournalState, match="segment 1 is not finalized"):
        writer.start(4)
    assert asked(writer).count(StartLogSegment) == 1, "no acceptor heard of the others"
    writer.finalize(1, 3)
    writer.start(4)


def test_a_segment_that_was_given_up_before_anything_was_sent_may_begin_anew() -> None:
    writer = recovered()
    writer.start(1)
    writer.proposer.nothing_was_written(2)
    with pytest.raises(BadJournalState, match="segment 1 is not finalized"):
        writer.start(1)
    writer.proposer.nothing_was_written(1)
    writer.start(1)
    assert writer.send(1, 1) == {0, 1, 2}


def test_J5_a_finalization_without_a_quorum_leaves_the_segment_unfinalized() -> None:
    writer = recovered()
    writer.start(1)
    writer.send(1, 1, 3)
    writer.lost = lambda number, request: number > 0 and isinstance(request, FinalizeLogSegment)
    with pytest.raises(QuorumFailed):
        writer.finalize(1, 3)
    with pytest.raises(BadJournalState, match="segment 1 is not finalized"):
        writer.start(4)
    writer.lost = lambda _, __: False
    writer.finalize(1, 3)
    writer.start(4)


def test_a_writer_begins_no_segment_at_a_txid_that_is_taken() -> None:
    three = new_journal()
    first = recovered(three)
    first.start(1)
    first.send(1, 1, 10)
    second = WriterByHand(three)
    assert second.recover() == SegmentState(1, 10, True, 1)
    for first_txid in (1, 5, 10):
        with pytest.raises(BadJournalState, match=f"txid {first_txid} is taken"):
            second.start(first_txid)
    second.start(11)
    second.send(11, 11)
    second.finalize(11, 11)
    for first_txid in (10, 11):
        with pytest.raises(BadJournalState, match=f"txid {first_txid} is taken"):
            second.start(first_txid)
    assert asked(second).count(StartLogSegment) == 1
    second.start(12)


def test_a_start_without_a_quorum_may_be_tried_again() -> None:
    writer = recovered()
    writer.lost = lambda number, request: number > 0 and isinstance(request, StartLogSegment)
    with pytest.raises(QuorumFailed):
        writer.start(1)
    writer.lost = lambda _, __: False
    writer.start(1)
    assert writer.send(1, 1) == {0, 1, 2}


@pytest.mark.parametrize("reaches", [{0, 1, 2}, {0, 1}], ids=["done", "done by two of three"])
@pytest.mark.parametrize("change", ["format", "do_pre_upgrade", "do_rollback", "discard_segments"])
def test_who_changes_the_whole_journal_is_its_writer_no_more(change: str, reaches: set[int]) -> None:
    three = new_journal()
    writer = WriterByHand(three)
    if change == "do_rollback":
        writer.run(writer.proposer.do_pre_upgrade())
        writer.run(writer.proposer.do_upgrade(NAMESPACE))
    writer = recovered(three)
    writer.start(1)
    writer.send(1, 1, 3)
    writer.finalize(1, 3)
    proposer = writer.proposer
    steps: dict[str, Program[None]] = {
        "format": proposer.format(NAMESPACE, force=True),
        "do_pre_upgrade": proposer.do_pre_upgrade(),
        "do_rollback": proposer.do_rollback(),
        "discard_segments": proposer.discard_segments(1),
    }
    writer.reaches = frozenset(reaches)
    if reaches == ALL:
        writer.run(steps[change])
    else:
        with pytest.raises(QuorumFailed):
            writer.run(steps[change])
    writer.reaches = ALL
    writer.asked.clear()
    with pytest.raises(BadJournalState):
        writer.start(4)
    assert asked(writer) == []
    with pytest.raises(BadJournalState, match="has epoch"):
        writer.recover()


def test_an_old_writer_is_refused_by_whoever_promised_the_journal_to_the_next() -> None:
    three = new_journal()
    old = recovered(three)
    old.start(1)
    WriterByHand(three, {1, 2}).recover()
    assert old.send(1, 1) == {0}


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_what_concerns_the_whole_journal_needs_every_acceptor(silent: int) -> None:
    writer = WriterByHand(new_journal(), {0, 1, 2} - {silent})
    proposer = writer.proposer
    for steps in (
        proposer.format(NAMESPACE, force=True),
        proposer.do_pre_upgrade(),
        proposer.do_upgrade(NAMESPACE),
        proposer.do_finalize(),
        proposer.can_roll_back(-63),
        proposer.do_rollback(),
        proposer.discard_segments(1),
        proposer.get_journal_c_time(),
        proposer.is_formatted(),
    ):
        with pytest.raises(QuorumFailed, match=f"quorum size 3/3(.|\n)*{NAMES[silent]} does not answer"):
            writer.run(steps)


def test_a_journal_is_formatted_when_any_acceptor_holds_one() -> None:
    three = ThreeDisks()
    writer = WriterByHand(three)
    assert not writer.run(writer.proposer.is_formatted())
    run(formatted(three.acceptors[2]))
    assert writer.run(writer.proposer.is_formatted())
    assert asked(writer) == [IsFormatted, IsFormatted]


def test_acceptors_that_do_not_agree_on_the_creation_time_are_an_error() -> None:
    three = new_journal()
    writer = WriterByHand(three)
    assert writer.run(writer.proposer.get_journal_c_time()) == 0
    other = WriterByHand(three, {0})
    for steps in (other.proposer.do_pre_upgrade(), other.proposer.do_upgrade(replace(NAMESPACE, c_time=7))):
        with pytest.raises(QuorumFailed):
            other.run(steps)
    with pytest.raises(RuleViolated, match="getJournalCTime: the acceptors do not agree"):
        writer.run(writer.proposer.get_journal_c_time())


def test_too_few_answers_in_time_name_who_was_silent() -> None:
    acceptors = Acceptors(NAMES)
    answers: Answers[int] = Answers({0: 1}, {1: JournalUnavailable("it is down")})
    late = r"Timed out waiting 2000 ms for a quorum of nodes to respond\. No answer from c"
    with pytest.raises(QuorumTimeout, match=late):
        acceptors.check("journal(1-2)", answers, Need.MAJORITY, 2.0)
    with pytest.raises(QuorumFailed, match="2 exceptions thrown:\na: gone\nb: gone"):
        gone = {n: JournalUnavailable("gone") for n in (0, 1)}
        acceptors.check("journal(1-2)", Answers({2: 1}, gone), Need.MAJORITY, 2.0)


def test_the_epoch_is_told_to_the_channels_before_anything_is_recovered() -> None:
    steps = Proposer(NAMES, JournalConfig()).recover_unfinalized_segments(NAMESPACE)
    effect = next(steps)
    order: list[str] = []
    from qjm_compat.requests import JournalStateReply, NewEpochReply

    with pytest.raises(StopIteration):
        while True:
            if isinstance(effect, SetEpoch):
                order.append(f"epoch {effect.epoch}")
                effect = steps.send(None)
                continue
            assert isinstance(effect, CallAcceptors)
            order.append(type(effect.request).__name__)
            reply: object = (
                JournalStateReply(4) if isinstance(effect.request, GetJournalState) else NewEpochReply(None)
            )
            effect = steps.send(Answers({0: reply, 2: reply}))
    assert order == ["GetJournalState", "NewEpoch", "epoch 5"]
