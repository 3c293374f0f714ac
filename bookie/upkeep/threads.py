"""Runs blocking work in a thread beside the event loop, uncancellably."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..uncancellable import uncancellable

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns its result. Even a cancelled caller waits for the work: the index may be closed right behind it."""
    return await uncancellable(asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs)))
