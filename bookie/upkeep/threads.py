"""Runs blocking work in a thread outside the event loop, so that it cannot be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..uncancellable import uncancellable

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of `work`. If the caller is cancelled, still waits until the work has ended, because the index
    may be closed as soon as the caller stops waiting."""
    return await uncancellable(asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs)))
