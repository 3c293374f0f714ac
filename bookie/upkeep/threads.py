"""Work that blocks, done beside the event loop and never left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..to_the_end import to_the_end

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Its result. Also when cancelled, this ends only after the work has: the index may be closed right behind it."""
    return await to_the_end(asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs)))
