"""A bookie tells the highest last-add-confirmed on its disk, at once or when it rises."""

from __future__ import annotations

import asyncio

from bookie.storage.bookie import Bookie
from bookie.wire.messages import LacReply, Status
from tests.bookie.bookies import (
    append,
    lac_request,
)
from tests.bookie.entries import frame_of, lac_of

OK = Status.OK


async def test_the_last_add_confirmed_is_the_highest_one_on_disk(bookie: Bookie) -> None:
    await append(
        bookie,
        frame_of(7, [0]),
        frame_of(7, [1, 2], lac=0),
        frame_of(7, [], lac=2),
        frame_of(7, [], lac=1),
    )
    assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(2))


async def test_a_long_poll_is_answered_when_a_later_last_add_confirmed_is_on_disk_and_not_before(
    bookie: Bookie,
) -> None:
    await append(bookie, frame_of(7, [0, 1], lac=0))
    at_once = await bookie.last_add_confirmed(lac_request(7, beyond=-1, wait_ms=60_000))
    assert at_once == LacReply(OK, lac_of(0))
    waiting = asyncio.create_task(bookie.last_add_confirmed(lac_request(7, beyond=0, wait_ms=60_000)))
    await asyncio.sleep(0)
    await append(bookie, frame_of(7, [2], lac=0), frame_of(8, [0, 1], lac=1), frame_of(7, [3]))
    assert not waiting.done()
    await append(bookie, frame_of(7, [4], lac=1))
    assert await waiting == LacReply(OK, lac_of(1))


async def test_a_long_poll_ends_when_its_time_is_up(bookie: Bookie) -> None:
    await append(bookie, frame_of(7, [0], lac=-1))
    reply = await bookie.last_add_confirmed(lac_request(7, beyond=5, wait_ms=20))
    assert reply == LacReply(OK, lac_of(-1))
    assert bookie._lac_waiters.ledgers == 0


async def test_nobody_waits_for_news_from_a_bookie_that_stops(bookie: Bookie) -> None:
    asked = lac_request(7, wait_ms=60_000)
    waiting = [asyncio.create_task(bookie.last_add_confirmed(asked)) for _ in range(3)]
    await asyncio.sleep(0)
    bookie.end_waits()
    expected = LacReply(Status.NO_SUCH_LEDGER)
    assert [await one for one in waiting] == [expected] * 3
    assert await bookie.last_add_confirmed(asked) == expected
