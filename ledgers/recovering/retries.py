"""Several tries at one bookie: whoever gives up early leaves a ledger unusable, or a copy behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ..config import ClientConfig
from ..errors import BookieUnavailable

Reply = TypeVar("Reply")


async def with_tries(config: ClientConfig, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """The answer of one of `recovery_tries_max` calls. Raises BookieUnavailable, of the last."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(BookieUnavailable),
        stop=stop_after_attempt(config.recovery_tries_max),
        wait=wait_random_exponential(multiplier=0.1, max=1.0),
        reraise=True,
    ):
        with attempt:
            return await call()
    raise AssertionError("a retry ends with an answer or an error")
