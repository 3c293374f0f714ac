"""Bounds how long a writer may be without a quorum of live bookies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from .progress_timeout import ProgressClock

log = logging.getLogger(__name__)

WARN_AGAIN_SECONDS = 60.0
"""Minimum time between warnings about a quorum that is lost repeatedly, for example while full disks are retried."""


class QuorumWatch:
    """Ends a writer after `seconds_max` without a quorum, even if no caller waits for it.

    Logs a warning at once, with the text of `why`.
    """

    def __init__(
        self,
        seconds_max: float,
        is_without: Callable[[], bool],
        give_up: Callable[[], None],
        why: Callable[[], str],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_without = is_without
        self._why = why
        self._warned_at = -WARN_AGAIN_SECONDS
        self._clock = ProgressClock(seconds_max, is_without, give_up)
        self._was_without = False

    def look(self) -> None:
        """Called when bookies have been lost or found."""
        is_without = self._is_without()
        if is_without and not self._was_without:
            self._clock.progressed()
            self._clock.start()
            self._warn()
        self._was_without = is_without

    def stop(self) -> None:
        self._clock.stop()

    def _warn(self) -> None:
        if self._loop.time() >= self._warned_at + WARN_AGAIN_SECONDS:
            self._warned_at = self._loop.time()
            log.warning("%s", self._why())


def why_writing_waits(ledger_id: int, failures: Mapping[str, str], seconds_max: float) -> str:
    """Returns the warning about a writer that has lost its ack quorum."""
    said = "; ".join(f"{name}: {failure}" for name, failure in sorted(failures.items()))
    return f"ledger {ledger_id} is waiting up to {seconds_max:g} s for an ack quorum of live bookies: {said}"
