"""Makes work in a thread uncancellable, because the resources that it uses are closed as soon as the caller stops
waiting."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def uncancellable(working: asyncio.Future[T]) -> T:
    """Waits for the work to end and returns its result. If cancelled, even several times, raises the cancellation only
    when the work has ended."""
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not working.cancelled():
            working.exception()  # retrieved so that asyncio does not log it; the caller gets the cancellation instead
        raise cancelled
    return working.result()
