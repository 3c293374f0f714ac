"""A plugin: a coroutine of a test that hangs fails where it waits; a signal in its event loop would not tell where."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support import aio


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Its function gets the limit that `run` gives, or its module's own: where tests set the loop's clock forward."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _limited(item.obj, getattr(item.module, "TEST_SECONDS_MAX", aio.TEST_SECONDS_MAX))


def _limited(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def within(*arguments: Any, **named: Any) -> None:
        await aio.limited(test(*arguments, **named), seconds)

    return within
