"""Logs outages of the metadata store in one place: when they begin, once a minute while they last, and when they end.

The loops of a process notice the same outage at different times, and would otherwise log ten similar lines a minute.
"""

from __future__ import annotations

import logging
import math
import time

from ..errors import MetadataError, StoreFull, StoreRefused, StoreUnavailable

AGAIN_SECONDS = 60.0
"""Time between two log lines about the same outage."""

log = logging.getLogger(__name__)


def weight(error: Exception) -> int:
    """Returns the level at which a caller should log this error: DEBUG for an error that indicates an outage, because
    outages are logged here; WARNING for any other error."""
    return logging.DEBUG if _is_outage(error) else logging.WARNING


def _is_outage(error: Exception) -> bool:
    return isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused | StoreFull)


class Outage:
    """Outage of one store, as seen by one process or bookie. Errors that occur before the store answers for the first
    time are logged by the store's callers instead."""

    def __init__(self) -> None:
        self._has_answered = False
        self._began: float | None = None
        self._logged_at = 0.0
        self._calls = 0
        self._answered_at = -math.inf

    def failed(self, error: MetadataError, asked_at: float = math.inf) -> None:
        """Counts a failed call, made at `asked_at` on the monotonic clock. An error that does not indicate an outage is
        treated as an answer. A call made before the store's last answer does not count, because its failure shows
        nothing about the store's present state."""
        if not _is_outage(error):
            self.answered()
            return
        if not self._has_answered or asked_at < self._answered_at:
            return
        now = time.monotonic()
        self._calls += 1
        if self._began is None:
            self._began = self._logged_at = now
            log.warning("the metadata store does not answer, will keep trying: %s", error)
        elif now - self._logged_at >= AGAIN_SECONDS:
            self._logged_at = now
            log.warning(
                "the metadata store has not answered for %.0f s, in %d calls: %s",
                now - self._began,
                self._calls,
                error,
            )

    def answered(self) -> None:
        """Ends the outage, because a call was answered."""
        self._has_answered, self._answered_at = True, time.monotonic()
        if self._began is not None:
            log.warning("the metadata store answers again, after %.1f s", time.monotonic() - self._began)
            self._began, self._calls = None, 0
