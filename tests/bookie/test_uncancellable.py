"""Work in a thread is waited for, however often whoever waits is cancelled: what it uses may be closed next."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bookie.uncancellable import uncancellable
from bookie.upkeep.threads import in_thread


async def test_whoever_is_cancelled_twice_ends_only_when_the_work_has() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(20)
        ended.set()

    waiting = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_the_result_or_the_error_of_the_work_is_given() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_whoever_was_cancelled_hears_of_nothing_else() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(uncancellable(failing))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    failing.set_exception(OSError("the disk is broken"))
    with pytest.raises(asyncio.CancelledError):
        await waiting
