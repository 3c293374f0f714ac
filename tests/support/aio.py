"""Runs a coroutine where a test is none, with a limit that turns a hang into a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


TEST_SECONDS_MAX = 200
"""A busy machine may take long; a hang takes longer."""


def run(coro: Coroutine[Any, Any, T], timeout_seconds: float = TEST_SECONDS_MAX) -> T:
    """Runs `coro` on a new event loop and returns its result."""
    return asyncio.run(limited(coro, timeout_seconds))


async def limited(coro: Awaitable[T], timeout_seconds: float) -> T:
    """The coroutine's result, or TimeoutError."""
    async with asyncio.timeout(timeout_seconds):
        return await coro


async def take(count: int, items: AsyncIterator[T]) -> list[T]:
    """The next `count` items; the iterator stays open."""
    return [await anext(items) for _ in range(count)]


async def cancel(task: asyncio.Future[T]) -> None:
    """Ends a task that a test started, or gives up what it waits for."""
    task.cancel()
    await asyncio.wait([task])


async def until_true(condition: Callable[[], bool | Awaitable[bool]], pause_seconds: float = 0.01) -> None:
    """Waits until `condition()` holds; the test's own limit ends it otherwise."""

    async def holds() -> bool:
        found = condition()
        return found if isinstance(found, bool) else await found

    while not await holds():  # noqa: ASYNC110 — what is waited for is outside this process
        await asyncio.sleep(pause_seconds)
