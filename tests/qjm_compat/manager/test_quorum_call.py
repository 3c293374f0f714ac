"""Waiting for a quorum of answers."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from pathlib import Path

import pytest

from bookledger.cli.child import Child
from ledgers.protocol.quorum import Outcome
from qjm_compat import JournalUnavailable, QuorumFailed, QuorumTimeout
from qjm_compat.manager.proposer_effects import Acceptors, Answers, Need
from qjm_compat.manager.quorum_call import wait_for
from tests.simulation.engine.loop import VirtualLoop, run

LONG = 30.0


def calls_of(count: int) -> list[asyncio.Future[str]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_a_majority_of_answers_is_enough_and_the_others_go_on() -> None:
    calls = calls_of(3)
    calls[2].set_result("c")
    waiting = asyncio.create_task(wait_for("x", calls, Need.MAJORITY, LONG))
    await asyncio.sleep(0)
    assert not waiting.done()
    calls[0].set_result("a")
    answers = await waiting
    assert (answers.replies, answers.errors) == ({0: "a", 2: "c"}, {})
    assert not calls[1].done()
    calls[1].set_result("late")  # nobody minds


async def test_where_all_must_answer_the_last_one_is_waited_for_and_the_first_error_ends_it() -> None:
    calls = calls_of(2)
    calls[0].set_result("a")
    waiting = asyncio.create_task(wait_for("x", calls, Need.ALL, LONG))
    await asyncio.sleep(0)
    assert not waiting.done()
    calls[1].set_result("b")
    assert (await waiting).replies == {0: "a", 1: "b"}
    calls = calls_of(3)
    refusal = JournalUnavailable("no")
    calls[1].set_exception(refusal)
    answers = await wait_for("x", calls, Need.ALL, LONG)
    assert (answers.replies, answers.errors) == ({}, {1: refusal})


async def test_a_majority_that_cannot_come_any_more_is_not_waited_for() -> None:
    calls = calls_of(3)
    for n in (0, 2):
        calls[n].set_exception(JournalUnavailable(f"no {n}"))
    answers = await wait_for("flush", calls, Need.MAJORITY, LONG)
    assert answers.outcome(Need.MAJORITY, 3) is Outcome.LOST
    with pytest.raises(QuorumFailed, match=r"quorum size 2/3\. 2 exceptions thrown:\na: no 0\nc: no 2"):
        Acceptors(("a", "b", "c")).check("flush", answers, Need.MAJORITY, LONG)


def test_when_the_time_is_over_those_that_were_silent_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """In virtual time: on a busy machine a wake-up is so late that the wait is prolonged."""

    async def wait() -> Answers[str]:
        calls = calls_of(3)
        calls[1].set_exception(JournalUnavailable("no"))
        return await wait_for("flush", calls, Need.MAJORITY, LONG)

    with caplog.at_level(logging.WARNING):
        answers = run(wait, VirtualLoop())
    with pytest.raises(QuorumTimeout, match=r"waiting 30000 ms .* No answer from a, c\.\nb: no"):
        Acceptors(("a", "b", "c")).check("flush", answers, Need.MAJORITY, LONG)
    assert [record.getMessage() for record in caplog.records] == [
        f"waited {seconds} of 30.0 s for a quorum: flush" for seconds in ("9.0", "21.0")
    ]


async def test_a_call_that_broke_off_is_an_answer_that_counts_against_the_quorum() -> None:
    calls = calls_of(1)
    calls[0].set_exception(ValueError("a defect"))
    answers = await wait_for("x", calls, Need.MAJORITY, LONG)
    with pytest.raises(QuorumFailed, match="a defect"):
        Acceptors(("a",)).check("x", answers, Need.MAJORITY, LONG)


STANDS_STILL = """
import asyncio, os, signal, sys
from qjm_compat.manager.proposer_effects import Need
from qjm_compat.manager.quorum_call import wait_for

async def main():
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def stop():
        os.kill(os.getpid(), signal.SIGSTOP)
        loop.call_later(0.2, answer.set_result, 'it came')  # a moment after this process goes on

    loop.call_later(0.1, stop)
    answers = await wait_for('x', [answer], Need.MAJORITY, float(sys.argv[1]))
    print('{"replies": %d}' % len(answers.replies))

asyncio.run(main())
"""


def test_a_process_that_was_stopped_for_longer_than_the_limit_still_waits_for_the_answer() -> None:
    limit = 0.6
    with Child(("-c", STANDS_STILL, str(limit))) as child:
        while "State:\tT" not in Path(f"/proc/{child.pid}/status").read_text():
            time.sleep(0.01)
        time.sleep(2 * limit)  # the limit runs out meanwhile: that is the point
        child.signal(signal.SIGCONT)
        assert child.hear() == {"replies": 1}
