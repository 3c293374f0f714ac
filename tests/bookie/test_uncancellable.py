"""Work in a thread is waited for, however often whoever waits is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bookie.uncancellable import uncancellable


async def test_whoever_is_cancelled_twice_ends_only_when_the_work_has() -> None:
    may_end = threading.Event()
    working = asyncio.get_running_loop().run_in_executor(None, may_end.wait)
    waiting = asyncio.ensure_future(uncancellable(working))
    for _ in range(2):
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert working.done()


async def test_the_result_or_the_error_of_the_work_is_given() -> None:
    loop = asyncio.get_running_loop()
    assert await uncancellable(loop.run_in_executor(None, len, "four")) == 4
    with pytest.raises(ValueError, match="invalid literal"):
        await uncancellable(loop.run_in_executor(None, int, "x"))


async def test_whoever_was_cancelled_hears_of_nothing_else() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(uncancellable(failing))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    failing.set_exception(OSError("the disk is broken"))
    with pytest.raises(asyncio.CancelledError):
        await waiting
