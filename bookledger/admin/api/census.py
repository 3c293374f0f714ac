"""Counts all ledgers, by state, in the background: reads every record, or uses the auditor's counts."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from bookie.upkeep.healing.cluster_view import ClusterView
from bookledger.cluster.survey import Survey, survey
from metadata.errors import MetadataError
from metadata.store import MetadataStore

REST_SECONDS_MIN = 5.0
REST_A_WALK = 10
"""The pause between two walks over all ledgers is this many times the duration of the last walk, but at least
REST_SECONDS_MIN, so that walks take at most a tenth of one CPU."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of the latest complete walk over all ledgers, when it ended, and how long it took."""

    survey: Survey
    at: float
    seconds: float

    @property
    def seconds_ago(self) -> float:
        return round(max(0.0, time.monotonic() - self.at), 1)

    def is_of(self, view: ClusterView) -> bool:
        """Returns whether the live bookies are still the same as when the ledgers were counted."""
        return self.survey.view.living.keys() == view.living.keys()

    def copies_left(self, view: ClusterView) -> dict[str, int] | None:
        """Returns the number of fragments by number of copies. A fragment counts as having as many copies as its entry
        with the fewest copies on live bookies. Returns None if the live bookies have changed."""
        if not self.is_of(view):
            return None
        return {str(copies): count for copies, count in sorted(self.survey.copies_left.items())}


class Census:
    """Counts the ledgers on request if the last count is old. Belongs to one event loop."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._walking: asyncio.Task[None] | None = None
        self._tried = 0.0
        self.counted: Counted | None = None

    async def now(self, store: MetadataStore, wait_seconds: float) -> Counted | None:
        """Returns the latest count. If there is none yet, waits for one for up to `wait_seconds`, and returns None if
        it is still not available."""
        if self._walking is None and self._is_due():
            self._walking = asyncio.create_task(self._walk(store))
        if self.counted is None and self._walking is not None:
            await asyncio.wait([self._walking], timeout=wait_seconds)
        return self.counted

    async def stop(self) -> None:
        """Stops the walk over the ledgers, if one is running."""
        if self._walking is not None:
            self._walking.cancel()
            await asyncio.wait([self._walking])

    def _is_due(self) -> bool:
        took = self.counted.seconds if self.counted else 0.0
        return not self._tried or time.monotonic() - self._tried > max(REST_SECONDS_MIN, REST_A_WALK * took)

    async def _walk(self, store: MetadataStore) -> None:
        began = time.monotonic()
        try:
            found = await survey(store, wait_ms=self._wait_ms, may_be_counted=True)
            if found is not None:
                ended = time.monotonic()
                self.counted = Counted(found, ended - found.counted_seconds_ago, ended - began)
        except MetadataError as error:  # the other reads for the page report the error, too
            log.info("cannot count the ledgers: %s", error)
        finally:
            self._tried, self._walking = time.monotonic(), None
