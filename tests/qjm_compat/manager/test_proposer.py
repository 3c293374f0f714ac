"""The proposer's programs: what is asked of whom, in which order, and what ends them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from qjm_compat.config import JournalConfig
from qjm_compat.errors import BadJournalState, JournalUnavailable, QuorumFailed, QuorumTimeout, RuleViolated
from qjm_compat.manager.effects import Acceptors, Answers, Ask, Need, SetEpoch
from qjm_compat.manager.proposer import Proposer
from qjm_compat.requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    GetJournalState,
    IsFormatted,
    NewEpoch,
    PrepareRecovery,
    SegmentState,
)
from tests.qjm_compat.acceptor.one_writer import formatted
from tests.qjm_compat.by_hand import NAMES, ThreeDisks, WriterByHand
from tests.qjm_compat.journals import NAMESPACE
from tests.support.aio import run


def new_journal() -> ThreeDisks:
    three = ThreeDisks()

    async def all_formatted() -> None:
        for acceptor in three.acceptors:
            await formatted(acceptor)

    run(all_formatted())
    return three


def asked(writer: WriterByHand) -> list[type[Any]]:
    return [type(ask.request) for ask in writer.asked]


def test_the_first_writer_of_a_journal_has_nothing_to_recover() -> None:
    writer = WriterByHand(new_journal())
    assert writer.recover() is None
    assert asked(writer) == [GetJournalState, NewEpoch]
    assert writer.proposer.epoch == 1


def test_a_recovery_prepares_accepts_and_finalizes_the_latest_segment() -> None:
    three = new_journal()
    first = WriterByHand(three)
    first.recover()
    first.start(1)
    first.send(1, 1, 3)
    writer = WriterByHand(three)
    assert writer.recover() == SegmentState(1, 3, True, 1)
    assert asked(writer)[2:] == [PrepareRecovery, AcceptRecovery, FinalizeLogSegment]
    assert [ask.need for ask in writer.asked] == [Need.MAJORITY] * 5


def test_J1_an_epoch_is_above_all_that_a_majority_knows() -> None:
    three = new_journal()
    WriterByHand(three, {0, 1}).recover()
    second = WriterByHand(three, {1, 2})
    second.recover()
    assert second.proposer.epoch == 2
    assert [channel.epoch for channel in second.channels] == [2, 2, 2], "those not reached included"


def test_J1_an_epoch_that_a_majority_did_not_promise_is_nobodys() -> None:
    writer = WriterByHand(new_journal())
    writer.lost = lambda number, request: number > 0 and isinstance(request, NewEpoch)
    with pytest.raises(
        QuorumFailed, match=r"newEpoch\(1\): Got too many exceptions to achieve quorum size 2/3"
    ):
        writer.recover()
    assert writer.proposer.epoch is None
    assert not writer.proposer.is_active_writer


def test_a_writer_gets_an_epoch_once() -> None:
    writer = WriterByHand(new_journal())
    writer.recover()
    with pytest.raises(BadJournalState, match="has epoch 1 already"):
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
    first = WriterByHand(three)
    first.recover()
    first.start(1)
    first.send(1, 1)
    writer = WriterByHand(three)
    writer.lost = lambda number, request: number > 0 and isinstance(request, FinalizeLogSegment)
    with pytest.raises(QuorumFailed, match=r"finalizeLogSegment\(1-1\)"):
        writer.recover()
    with pytest.raises(BadJournalState):
        writer.start(2)


def test_an_old_writer_is_refused_by_whoever_promised_the_journal_to_the_next() -> None:
    three = new_journal()
    old = WriterByHand(three)
    old.recover()
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
            assert isinstance(effect, Ask)
            order.append(type(effect.request).__name__)
            reply: object = (
                JournalStateReply(4) if isinstance(effect.request, GetJournalState) else NewEpochReply(None)
            )
            effect = steps.send(Answers({0: reply, 2: reply}))
    assert order == ["GetJournalState", "NewEpoch", "epoch 5"]
