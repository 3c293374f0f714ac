"""The calls of one writer to one acceptor: numbered, in order, bounded, and none to one that missed a batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.config import JournalConfig
from qjm_compat.errors import BadJournalState, JournalOutOfSync, LoggerTooFarBehind
from qjm_compat.manager.channel import QUEUED_CALLS_MAX, Channel, ChannelEffect, Fail, SendCall
from qjm_compat.requests import (
    FinalizeLogSegment,
    GetJournalState,
    Heartbeat,
    PurgeLogs,
    Request,
    RequestInfo,
    SendEdits,
    StartLogSegment,
    WriterRequest,
)

SMALL = JournalConfig(queued_edits_bytes_max=100, pipelined_batches_max=3, heartbeat_seconds=1.0)


def batch(first_txid: int, size: int = 10) -> SendEdits:
    return SendEdits(segment_txid=1, first_txid=first_txid, num_txns=1, records=b"x" * size)


class At:
    """A channel and the time, which stands still unless the test moves it."""

    def __init__(self, config: JournalConfig = SMALL, epoch: int = 5) -> None:
        self.channel = Channel("a", config)
        if epoch:
            self.channel.set_epoch(epoch)
        self.now = 100.0

    def submit(self, request: Request[Any]) -> tuple[int, list[ChannelEffect]]:
        return self.channel.submit(request, self.now)

    def sent(self, request: Request[Any]) -> int:
        """Submits a call that goes out at once."""
        call, effects = self.submit(request)
        assert [type(effect) for effect in effects] == [SendCall]
        return call

    def waits(self, request: Request[Any]) -> int:
        """Submits a call that does not go out yet."""
        call, effects = self.submit(request)
        assert effects == []
        return call

    def answered(self, call: int) -> list[ChannelEffect]:
        return self.channel.answered(call, self.now)

    def failed(self, call: int) -> list[ChannelEffect]:
        return self.channel.failed(call, self.now)

    def out_of_sync(self) -> None:
        assert self.failed(self.sent(batch(1))) == []
        assert self.channel.is_out_of_sync


def requests_of(effects: list[ChannelEffect]) -> list[Request[Any]]:
    return [effect.request for effect in effects if isinstance(effect, SendCall)]


def errors_of(effects: list[ChannelEffect]) -> list[type[Exception]]:
    return [type(effect.error) for effect in effects if isinstance(effect, Fail)]


def infos_of(effects: list[ChannelEffect]) -> list[RequestInfo]:
    return [request.info for request in requests_of(effects) if isinstance(request, WriterRequest)]


def test_calls_go_one_at_a_time_and_in_order() -> None:
    at = At()
    first = at.sent(StartLogSegment(txid=1))
    second = at.waits(FinalizeLogSegment(start_txid=1, end_txid=1))
    third = at.waits(PurgeLogs(min_txid_to_keep=1))
    assert [effect.call for effect in at.answered(first)] == [second]
    assert [effect.call for effect in at.failed(second)] == [third]
    assert at.answered(third) == []
    assert at.channel.is_idle


def test_batches_follow_each_other_without_waiting_up_to_the_bound() -> None:
    at = At()
    calls = [at.sent(batch(txid)) for txid in (1, 2, 3)]
    fourth = at.waits(batch(4))
    assert [effect.call for effect in at.answered(calls[0])] == [fourth]


def test_a_batch_waits_for_a_call_before_it_and_a_call_for_all_batches_before_it() -> None:
    at = At()
    start = at.sent(StartLogSegment(txid=1))
    at.waits(batch(1))
    at.waits(batch(2))
    finalize = at.waits(FinalizeLogSegment(start_txid=1, end_txid=2))
    at.waits(batch(3))
    one, two = at.answered(start)
    assert at.answered(two.call) == []
    assert [effect.call for effect in at.answered(one.call)] == [finalize]


def test_the_queue_is_bounded_in_bytes_and_gives_back_what_is_over() -> None:
    at = At()
    first = at.sent(batch(1, 60))
    assert at.channel.queued_bytes == 60
    assert errors_of(at.submit(batch(2, 41))[1]) == [LoggerTooFarBehind]
    assert at.channel.queued_bytes == 60
    second = at.sent(batch(2, 40))
    at.answered(first)
    at.failed(second)
    assert at.channel.queued_bytes == 0


def test_a_single_batch_is_let_in_however_large_it_is() -> None:
    at = At()
    call = at.sent(batch(1, 1000))
    assert errors_of(at.submit(batch(2, 1))[1]) == [LoggerTooFarBehind]
    at.answered(call)
    at.sent(batch(2, 1000))


def test_a_full_queue_does_not_by_itself_put_the_acceptor_out_of_sync() -> None:
    at = At()
    at.sent(batch(1, 60))
    at.submit(batch(2, 60))
    assert not at.channel.is_out_of_sync


def test_the_queue_is_bounded_in_calls() -> None:
    at = At()
    for _ in range(QUEUED_CALLS_MAX):
        at.submit(GetJournalState())
    assert errors_of(at.submit(GetJournalState())[1]) == [LoggerTooFarBehind]


def test_an_acceptor_that_missed_a_batch_gets_no_more_until_it_has_begun_a_segment() -> None:
    at = At()
    at.out_of_sync()
    for request in (batch(2), FinalizeLogSegment(start_txid=1, end_txid=1)):
        call, effects = at.submit(request)
        (refused,) = [effect for effect in effects if isinstance(effect, Fail)]
        assert refused.call == call
        assert isinstance(refused.error, JournalOutOfSync)
        assert "disabled until next roll" in str(refused.error)
        for beat in [effect for effect in effects if isinstance(effect, SendCall)]:
            at.answered(beat.call)
    at.failed(at.sent(StartLogSegment(txid=2)))
    assert at.channel.is_out_of_sync
    at.answered(at.sent(StartLogSegment(txid=2)))
    assert not at.channel.is_out_of_sync
    at.sent(batch(2))


def test_batches_that_wait_when_one_before_them_fails_are_never_sent() -> None:
    at = At()
    first = at.sent(batch(1))
    at.sent(batch(2))
    at.sent(batch(3))
    waiting = at.waits(batch(4))
    (refused,) = at.failed(first)
    assert isinstance(refused, Fail)
    assert refused.call == waiting


def test_other_calls_still_go_to_an_acceptor_that_is_out_of_sync() -> None:
    at = At()
    at.out_of_sync()
    at.answered(at.sent(PurgeLogs(min_txid_to_keep=1)))
    at.answered(at.sent(GetJournalState()))


def test_a_failed_finalization_does_not_put_an_acceptor_out_of_sync() -> None:
    at = At()
    at.failed(at.sent(FinalizeLogSegment(start_txid=1, end_txid=1)))
    assert not at.channel.is_out_of_sync


def test_heartbeats_go_at_most_once_in_a_while_and_only_when_something_was_refused() -> None:
    at = At()
    at.out_of_sync()
    at.channel.set_committed(7)
    beats: list[RequestInfo] = []
    for tenths in range(25):
        at.now = 200.0 + tenths / 10
        _, effects = at.submit(batch(2))
        for effect in effects:
            if isinstance(effect, SendCall):
                assert isinstance(effect.request, Heartbeat)
                beats.append(effect.request.info)
                assert at.answered(effect.call) == []
    assert [(info.epoch, info.committed_txid) for info in beats] == [(5, 7)] * 3


def test_no_heartbeat_goes_while_a_call_is_under_way() -> None:
    at = At()
    first = at.sent(batch(1))
    at.sent(batch(2))
    at.failed(first)
    _, effects = at.submit(batch(3))
    assert [type(effect) for effect in effects] == [Fail]
    assert at.failed(2) == []
    _, effects = at.submit(batch(3))
    assert [type(effect) for effect in effects] == [SendCall, Fail]


def test_numbers_rise_by_one_with_every_request_that_is_sent_and_only_then() -> None:
    """Q9."""
    at = At()
    numbers: list[int] = []

    def note(effects: list[ChannelEffect]) -> None:
        numbers.extend(info.serial for info in infos_of(effects))

    call, effects = at.submit(StartLogSegment(txid=1))
    note(effects)
    at.submit(batch(1))
    note(at.answered(call))
    note(at.failed(2))
    _, effects = at.submit(batch(2))  # refused, with a heartbeat
    note(effects)
    at.answered(effects[0].call)
    _, effects = at.submit(GetJournalState())  # has no number
    at.answered(effects[0].call)
    _, effects = at.submit(PurgeLogs(min_txid_to_keep=1))
    note(effects)
    assert numbers == [0, 1, 2, 3]


def test_what_is_committed_goes_with_the_next_request() -> None:
    at = At()
    call, effects = at.submit(batch(1))
    assert infos_of(effects) == [RequestInfo(5, 0, None)]
    at.channel.set_committed(1)
    _, effects = at.submit(batch(2))
    assert infos_of(effects) == [RequestInfo(5, 1, 1)]
    at.answered(call)


def test_a_request_that_waits_tells_what_is_committed_when_it_is_sent() -> None:
    at = At()
    start = at.sent(StartLogSegment(txid=1))
    at.submit(batch(1))
    at.channel.set_committed(9)
    assert [info.committed_txid for info in infos_of(at.answered(start))] == [9]


def test_what_is_committed_never_goes_back() -> None:
    at = At()
    at.channel.set_committed(5)
    at.channel.set_committed(5)
    with pytest.raises(BadJournalState, match="cannot go back from 5 to 4"):
        at.channel.set_committed(4)


def test_without_an_epoch_nothing_is_written() -> None:
    at = At(epoch=0)
    for request in (StartLogSegment(txid=1), batch(1), PurgeLogs(min_txid_to_keep=1), Heartbeat()):
        _, effects = at.submit(request)
        assert errors_of(effects) == [BadJournalState]
        assert "bad epoch" in str(effects[0].error if isinstance(effects[0], Fail) else "")
    at.sent(GetJournalState())


def test_the_highest_acknowledged_txid_is_known() -> None:
    at = At()
    first, second = at.sent(batch(1)), at.sent(batch(2))
    at.answered(second)
    at.answered(first)
    assert at.channel.highest_acked_txid == 2


@given(
    st.lists(st.sampled_from(["batch", "start", "finalize", "purge", "ask", "answer", "fail"]), max_size=60),
    st.randoms(use_true_random=False),
)
def test_whatever_happens_calls_end_once_in_order_and_within_the_bounds(steps: list[str], rng: Any) -> None:
    at = At()
    under_way: dict[int, Request[Any]] = {}
    submitted: list[int] = []
    ended: set[int] = set()
    sent: list[int] = []
    numbers: list[int] = []

    def perform(effects: list[ChannelEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Fail):
                assert effect.call not in ended
                ended.add(effect.call)
            else:
                under_way[effect.call] = effect.request
                if effect.call in submitted:
                    sent.append(effect.call)
        numbers.extend(info.serial for info in infos_of(effects))
        batches = [request for request in under_way.values() if isinstance(request, SendEdits)]
        assert len(batches) == len(under_way) <= 3 or len(under_way) <= 1
        assert at.channel.queued_bytes <= 100

    kinds: dict[str, Request[Any]] = {
        "batch": batch(1, 30),
        "start": StartLogSegment(txid=1),
        "finalize": FinalizeLogSegment(start_txid=1, end_txid=1),
        "purge": PurgeLogs(min_txid_to_keep=1),
        "ask": GetJournalState(),
    }
    for step in [*steps, *["answer"] * (2 * len(steps))]:
        if step in kinds:
            at.now += rng.random()
            call = at.channel._calls + 1
            submitted.append(call)
            perform(at.submit(kinds[step])[1])
        elif under_way:
            call = rng.choice(list(under_way))
            del under_way[call]
            ended.add(call)
            perform(at.answered(call) if step == "answer" else at.failed(call))
    assert at.channel.is_idle
    assert ended >= set(submitted)
    assert sent == sorted(sent)
    assert numbers == list(range(len(numbers)))
