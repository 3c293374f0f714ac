"""Waiting for a change of a log's record: by a watch, and by reading the record from time to time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from metadata.errors import MetadataError

from ...tasks import end_tasks
from ..log_chain import LogChain

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Interval at which a waiting reader reads the record again, even if its watch reports nothing, because a watch may be
lost."""

LATE_SECONDS = 60.0
"""How long a log may have no segment at a reader's position before this is logged."""


class RecordWatch:
    """One reader's watch. It begins with the first wait; its owner closes it."""

    def __init__(self, chain: LogChain) -> None:
        self._chain = chain
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._waits_since: float | None = None
        self._waits_at = -1

    async def changed(self, seconds_max: float | None, position: int) -> bool:
        """Waits until the record may have changed, for a reader at this position. Returns False after the timeout."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
        self._tell_if_late(position)
        seconds = LOOK_SECONDS if seconds_max is None else min(seconds_max, LOOK_SECONDS)
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return seconds_max is None or seconds_max > seconds
        return True

    async def close(self) -> None:
        if self._following is not None:
            await end_tasks([self._following])

    async def _follow(self) -> None:
        record, version = self._chain.record, self._chain.found.version
        changes = self._chain.logs.watch(record.identity, after_revision=version)
        try:
            async with aclosing(changes) as versions:
                async for _ in versions:
                    self._changed.set()  # the reader reads it itself
        except MetadataError as error:
            log.info(
                "the record of log %r is read every %g s instead of watched: %s",
                record.name,
                LOOK_SECONDS,
                error,
            )

    def _tell_if_late(self, position: int) -> None:
        now = asyncio.get_running_loop().time()
        if position != self._waits_at or self._waits_since is None:
            self._waits_at, self._waits_since = position, now
        elif now - self._waits_since > LATE_SECONDS:
            self._waits_since = now
            line = "log %r has had no segment from position %d on for %g s: it has no writer, or its writer hangs"
            log.warning(line, self._chain.record.name, position, LATE_SECONDS)
