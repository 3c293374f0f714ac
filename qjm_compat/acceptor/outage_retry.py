"""How long a writer's call waits for unavailable metadata: a NameNode exits at once if a quorum refuses a call.

The wait is shorter than Hadoop's own time limit for the call, so that the answer still arrives in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..errors import MetadataAway
from ..requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    GetJournalState,
    NewEpoch,
    PrepareRecovery,
    Request,
    StartLogSegment,
)

E = TypeVar("E")
T = TypeVar("T")

AWAY_SECONDS_MAX = 100.0
"""Hadoop gives these calls 120 s (`dfs.qjournal.*.timeout.ms`)."""

START_AWAY_SECONDS_MAX = 12.0
"""Hadoop gives the start of a segment 20 s, a few of which may be spent on bookies that register again."""

_OF_REQUESTS: dict[type[Request[Any]], float] = {
    GetJournalState: AWAY_SECONDS_MAX,
    NewEpoch: AWAY_SECONDS_MAX,
    PrepareRecovery: AWAY_SECONDS_MAX,
    AcceptRecovery: AWAY_SECONDS_MAX,
    FinalizeLogSegment: AWAY_SECONDS_MAX,
    StartLogSegment: START_AWAY_SECONDS_MAX,
}

PAUSE_SECONDS = 0.2


class OutageRetry:
    """The retries of one call. The time limit starts at construction."""

    def __init__(self, away_seconds_max: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + away_seconds_max

    @classmethod
    def of(cls, request: Request[Any]) -> OutageRetry:
        return cls(_OF_REQUESTS.get(type(request), 0.0))

    async def until_answered(self, perform: Callable[[E], Awaitable[T]], effect: E) -> T:
        """Returns the effect's outcome. Repeats the effect while the metadata is unavailable, until the deadline."""
        while True:
            try:
                return await perform(effect)
            except MetadataAway:
                if self._loop.time() + PAUSE_SECONDS >= self._deadline:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)
