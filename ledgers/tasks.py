"""Background tasks of one object: they are cancelled when it is closed, and every failure is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

STOPPED_SECONDS = 1.0
"""If a timer fires this late, the process or its loop was suspended."""


class Tasks:
    """Starts tasks, passes their failures to `on_failure`, and cancels the remaining ones at `close`."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._on_failure = on_failure

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def settled(self, seconds_max: float) -> None:
        """Waits up to `seconds_max` for all tasks to end, including tasks started in the meantime; cancels none of
        them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                while self._running:
                    await asyncio.wait(list(self._running))

    async def close(self) -> None:
        """Cancels the tasks that are still running and waits for them. Must not be called from one of the tasks."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


async def in_daemon_thread(name: str, work: Callable[[], T]) -> T:
    """Runs `work` in a daemon thread of its own: work that hangs delays neither the loop nor the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not done.done():
            set_outcome()

    def run() -> None:
        try:
            set_outcome = partial(done.set_result, work())
        except Exception as error:
            set_outcome = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended, so no caller is waiting
            loop.call_soon_threadsafe(settle, set_outcome)

    Thread(target=run, name=name, daemon=True).start()
    return await done


async def at_loop_end(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None, None]:
    """Does the work when the generator is closed, or when `asyncio.run` closes all generators. Start the generator with
    `anext`."""
    try:
        yield
    finally:
        await work()


def was_suspended(due: float) -> bool:
    """Returns whether a timer due at this loop time fires so late that the process must have been suspended.

    Answers that arrived in the meantime are still unread: no peer may be blamed for the delay.
    """
    return asyncio.get_running_loop().time() - due > STOPPED_SECONDS


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancels tasks whose outcome is no longer wanted, and waits until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Runs work concurrently with the block, and cancels it when the block ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await end_tasks([task])
