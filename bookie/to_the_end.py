"""Work in a thread that nobody may leave behind: what it uses is closed right after it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(working: asyncio.Future[T]) -> T:
    """Its result, when it is over. Whoever is cancelled meanwhile, however often, is so only then."""
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not working.cancelled():
            working.exception()  # whoever was cancelled hears of nothing else
        raise cancelled
    return working.result()
