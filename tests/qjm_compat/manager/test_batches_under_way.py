"""Batches sent to all acceptors: when they count as committed, when as failed, and when their time is over."""

from __future__ import annotations

import asyncio

import pytest

from qjm_compat.errors import JournalUnavailable, QuorumFailed, QuorumTimeout
from qjm_compat.manager import batches_under_way
from qjm_compat.manager.batches_under_way import BatchesUnderWay
from qjm_compat.manager.proposer_effects import Acceptors
from qjm_compat.requests import SendEdits

LONG = 30.0
SHORT = 0.1

Calls = list[asyncio.Future[None]]


class Sent:
    """Batches of one txid each to acceptors a, b and c."""

    def __init__(self, seconds_max: float = LONG) -> None:
        self.committed: list[int] = []
        self.batches = BatchesUnderWay(Acceptors(("a", "b", "c")), seconds_max, self.committed.append)

    def add(self, txid: int) -> tuple[asyncio.Future[int], Calls]:
        calls: Calls = [asyncio.get_running_loop().create_future() for _ in range(3)]
        request = SendEdits(segment_txid=1, first_txid=txid, num_txns=1, records=b"")
        return self.batches.add(request, calls), calls


async def test_a_batch_is_committed_when_a_majority_has_it_and_the_third_changes_nothing() -> None:
    sent = Sent()
    settled, (a, b, c) = sent.add(5)
    b.set_result(None)
    await asyncio.sleep(0)
    assert not settled.done() and sent.committed == []
    a.set_exception(JournalUnavailable("gone"))
    c.set_result(None)
    assert await settled == 5
    assert sent.committed == [5]
    sent.batches.close()


async def test_a_batch_fails_when_a_majority_can_no_longer_have_it_and_says_what_each_acceptor_said() -> None:
    sent = Sent()
    settled, (a, b, _) = sent.add(5)
    a.set_exception(JournalUnavailable("its disk burns"))
    b.set_exception(JournalUnavailable("nobody there"))
    with pytest.raises(QuorumFailed, match="nobody there") as raised:
        await settled
    assert set(raised.value.errors) == {"a", "b"}
    assert sent.committed == []
    sent.batches.close()


async def test_a_batch_without_answers_ends_in_time_and_those_behind_it_have_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = Sent(SHORT)
    first, _ = sent.add(1)
    await asyncio.sleep(SHORT / 2)
    second, (a, b, _) = sent.add(2)
    with pytest.raises(QuorumTimeout, match="a, b, c"):
        await first
    assert not second.done()
    a.set_result(None)
    b.set_result(None)
    assert await second == 2


async def test_a_process_that_stood_still_gives_its_acceptors_the_time_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock rings far too late: nobody has answered because nobody was listened to."""
    monkeypatch.setattr(batches_under_way, "STEP_SECONDS_MAX", 10 * SHORT)
    sent = Sent(SHORT)
    settled, (a, b, _) = sent.add(1)
    sent.batches._due -= 10 * SHORT  # as if it had been due so long ago
    sent.batches._look()
    assert not settled.done()
    a.set_result(None)
    b.set_result(None)
    assert await settled == 1
    assert "was suspended" in caplog.text


async def test_a_long_wait_is_told_twice_in_the_log_at_most(caplog: pytest.LogCaptureFixture) -> None:
    sent = Sent(SHORT)
    settled, _ = sent.add(7)
    with pytest.raises(QuorumTimeout):
        while True:
            sent.batches._look()
            await asyncio.wait([settled], timeout=SHORT / 20)
            if settled.done():
                settled.result()
    assert caplog.text.count("for a quorum: journal(7-7)") == 2


async def test_a_timer_that_rings_a_tick_early_is_not_set_for_the_same_moment_again() -> None:
    sent, loop = Sent(LONG), asyncio.get_running_loop()
    sent.add(1)
    oldest = sent.batches._batches[0]
    oldest.sent_at = loop.time() - LONG + 1e-9  # its time is over but for less than a clock can tell
    before = loop.time()
    sent.batches._look_later()
    assert sent.batches._due >= before + batches_under_way.STEP_SECONDS_MIN
    sent.batches.close()
