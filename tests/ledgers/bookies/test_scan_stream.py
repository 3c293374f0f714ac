"""What has come of a scan: taken in order, told of at half the window, and never lost when the connection is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.serving.data.call_handler import ScanState
from bookie.wire import ReadReply, ScanRequest, Status
from bookie.wire.grpc_methods import MESSAGE_BYTES_MAX
from ledgers.bookies.bookie_calls import ScanStream
from ledgers.errors import BookieUnavailable


def request_of(window_bytes: int, page_bytes: int = 1) -> ScanRequest:
    return ScanRequest("i1", 7, 0, 9, page_bytes, window_bytes)


GONE = BookieUnavailable("b1:i", "the connection was lost")


async def test_answers_are_taken_in_the_order_in_which_they_came() -> None:
    stream = ScanStream(request_of(100))
    waiting = asyncio.create_task(stream.take())
    await asyncio.sleep(0)
    for body in (b"a", b"b", b"c"):
        stream.received(body)
    assert [await waiting, await stream.take(), await stream.take()] == [b"a", b"b", b"c"]


async def test_what_came_before_the_connection_was_lost_can_be_taken_and_then_the_loss_is_told() -> None:
    stream = ScanStream(request_of(100))
    stream.received(b"a")
    stream.failed(GONE)
    assert await stream.take() == b"a"
    for _ in range(2):
        with pytest.raises(BookieUnavailable, match="was lost"):
            await stream.take()


async def test_whoever_waits_is_told_of_a_loss() -> None:
    stream = ScanStream(request_of(100))
    waiting = asyncio.create_task(stream.take())
    await asyncio.sleep(0)
    stream.failed(GONE)
    with pytest.raises(BookieUnavailable):
        await waiting


async def test_who_gave_up_waiting_loses_nothing() -> None:
    stream = ScanStream(request_of(100))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stream.take()
    stream.received(b"a")
    assert await stream.take() == b"a"


async def test_what_was_taken_is_told_in_all_once_it_is_half_of_the_window() -> None:
    stream = ScanStream(request_of(10))
    told = []
    for _ in range(6):
        stream.received(b"123")
        await stream.take()
        told.append(stream.bytes_to_report())
    assert told == [None, 6, None, 12, None, 18]


@settings(max_examples=200, deadline=None)
@given(
    window=st.integers(0, 40),
    page=st.integers(0, 60),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30),
)
async def test_bookie_and_reader_never_wait_for_each_other(window: int, page: int, sizes: list[int]) -> None:
    """Whatever window and page are asked for, and however large pages turn out to be."""

    request = request_of(window, page)
    scan, stream = ScanState(request), ScanStream(request)

    async def send() -> None:
        for size in sizes:
            assert await scan.has_room()
            scan.was_read(ReadReply(Status.OK))
            scan.sent(size)
            stream.received(bytes(size))
            assert not stream.is_over_limit

    async def take() -> None:
        for size in sizes:
            assert len(await stream.take()) == size
            if (taken := stream.bytes_to_report()) is not None:
                scan.taken(taken)

    async with asyncio.timeout(5), asyncio.TaskGroup() as both:
        both.create_task(send())
        both.create_task(take())


async def test_a_bookie_that_sends_more_than_it_may_is_noticed() -> None:
    stream = ScanStream(request_of(100))
    stream.received(bytes(100 + MESSAGE_BYTES_MAX))
    assert not stream.is_over_limit
    stream.received(b"x")
    assert stream.is_over_limit
