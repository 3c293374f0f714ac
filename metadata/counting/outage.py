"""A store that does not answer is told of in one place: once, seldom again while it lasts, and at its end.

Every loop of a process meets the same outage, each in its own time: ten lines of each minute would say one thing.
"""

from __future__ import annotations

import logging
import math
import time

from ..errors import MetadataError, StoreRefused, StoreUnavailable

AGAIN_SECONDS = 60.0
"""Between two lines about one outage."""

log = logging.getLogger(__name__)


def weight(error: Exception) -> int:
    """The level of a line that somebody wants to log besides, of what he could not do meanwhile."""
    return logging.DEBUG if _is_outage(error) else logging.WARNING


def _is_outage(error: Exception) -> bool:
    return isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused)


class Outage:
    """Of one store, for one process or one bookie. One that has never answered is its business who waits for it."""

    def __init__(self) -> None:
        self._has_answered = False
        self._began: float | None = None
        self._told = 0.0
        self._calls = 0
        self._answered_at = -math.inf

    def failed(self, error: MetadataError, asked_at: float = math.inf) -> None:
        """A call has failed that was made at that moment of the monotonic clock; other errors than an outage's are
        answers. One that was made before the store answered another says nothing of what is now."""
        if not _is_outage(error):
            self.answered()
            return
        if not self._has_answered or asked_at < self._answered_at:
            return
        now = time.monotonic()
        self._calls += 1
        if self._began is None:
            self._began = self._told = now
            log.warning("the metadata does not answer, and is asked again until it does: %s", error)
        elif now - self._told >= AGAIN_SECONDS:
            self._told = now
            log.warning(
                "the metadata has not answered for %.0f s, in %d calls: %s",
                now - self._began,
                self._calls,
                error,
            )

    def answered(self) -> None:
        """A call has not failed."""
        self._has_answered, self._answered_at = True, time.monotonic()
        if self._began is not None:
            log.warning("the metadata answers again, after %.1f s", time.monotonic() - self._began)
            self._began, self._calls = None, 0
