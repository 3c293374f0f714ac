"""Retries a daemon's start, with back-off, while the metadata is unavailable or if a lease expired too early."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from metadata.errors import LeaseLost, StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

START_PAUSE_SECONDS_MAX = 5.0
"""Longest pause between two attempts."""


async def started(start: Callable[[AsyncExitStack], Awaitable[T]], stack: AsyncExitStack) -> T:
    """Calls `start` until the metadata answers; the stack closes the resources that `start` acquired.

    Also retries if the machine was so busy that a lease expired before anything was written under it. Raises other
    errors immediately, including a refusal by the metadata.
    """
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(_passes),
        wait=wait_random_exponential(multiplier=0.2, max=START_PAUSE_SECONDS_MAX),
        before_sleep=_say,
        reraise=True,
    ):
        with attempt:
            async with AsyncExitStack() as tried:
                result = await start(tried)
                stack.push_async_exit(tried.pop_all())
                return result
    raise AssertionError("a retry ends with a result or an error")


def _passes(error: BaseException) -> bool:
    """Returns whether another attempt may succeed."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_passes, error.exceptions))
    is_away = isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused)
    return is_away or isinstance(error, LeaseLost)


def _say(state: RetryCallState) -> None:
    assert state.outcome is not None
    error = state.outcome.exception()
    hint = error.what_to_do if isinstance(error, StoreUnavailable) and state.attempt_number == 1 else ""
    log.warning("waiting for the metadata to answer before serving: %s%s", error, hint and f". {hint}")
