"""Watches how long an application uses one record, so that a consumer whose application hangs releases its cursors."""

from __future__ import annotations

import asyncio

from .cursor import Cursor

POLL_SECONDS_MAX = 300.0
"""Default limit on how long an application may use one record; the same as the default of Kafka's max.poll.interval.ms.
"""

LOOKS = 10
"""The number of checks within the limit; the limit is therefore exceeded by a tenth at most."""


class PollWatch:
    """Watches one consumer. `cursor`: the cursor of the batch that the application is using; None while the application
    is asking for the next batch."""

    def __init__(self, seconds_max: float | None) -> None:
        if seconds_max is not None and not seconds_max > 0:
            raise ValueError(f"poll_seconds_max must be more than 0, or None for no limit, not {seconds_max}")
        self.seconds_max = seconds_max
        self.cursor: Cursor | None = None

    async def until_exceeded(self) -> None:
        """Waits until the application has used one record for longer than the limit without noting another one."""
        if self.seconds_max is None:
            await asyncio.Event().wait()
            return
        looks, last = 0, None
        while looks < LOOKS:
            await asyncio.sleep(self.seconds_max / LOOKS)
            now = None if self.cursor is None else (self.cursor, self.cursor.noted_position)
            looks = looks + 1 if now is not None and now == last else 0
            last = now
