"""Work in a thread is never left behind: what it reads may be closed next."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bookie.upkeep.threads import in_thread


async def test_its_result_or_its_error_is_handed_on() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_who_is_cancelled_waits_until_the_work_has_ended() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(20)
        ended.set()

    working = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait)
    working.cancel()
    await asyncio.wait([working], timeout=0.05)
    assert not working.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert ended.is_set()
