"""Retries a writer's call while the metadata is unavailable, because a NameNode exits as soon as a quorum refuses a
call.

The retries end before Hadoop's own time limit for the call, so that the answer still arrives in time.
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
"""How long most calls wait while the metadata is unavailable. Hadoop's time limit for these calls is 120 s
(`dfs.qjournal.*.timeout.ms`)."""

START_AWAY_SECONDS_MAX = 12.0
"""How long the start of a segment waits while the metadata is unavailable. Hadoop's time limit for it is 20 s, and a
few of these seconds may pass while bookies register again after the outage."""

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
    """The retries of one call, up to a time limit that runs from construction."""

    def __init__(self, away_seconds_max: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + away_seconds_max

    @classmethod
    def of(cls, request: Request[Any]) -> OutageRetry:
        return cls(_OF_REQUESTS.get(type(request), 0.0))

    async def until_answered(self, perform: Callable[[E], Awaitable[T]], effect: E) -> T:
        """Performs the effect and returns its outcome. While the metadata is unavailable, repeats the effect until the
        deadline."""
        while True:
            try:
                return await perform(effect)
            except MetadataAway:
                if self._loop.time() + PAUSE_SECONDS >= self._deadline:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)
