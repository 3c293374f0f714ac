"""How long a writer may be without a quorum of live bookies."""

from __future__ import annotations

from collections.abc import Callable

from .progress import ProgressClock


class QuorumWatch:
    """Has a writer give up that was without a quorum for `seconds_max`, also one for which nothing waits."""

    def __init__(
        self, seconds_max: float, is_without: Callable[[], bool], give_up: Callable[[], None]
    ) -> None:
        self._is_without = is_without
        self._clock = ProgressClock(seconds_max, is_without, give_up)
        self._was_without = False

    def look(self) -> None:
        """Bookies were lost or found."""
        is_without = self._is_without()
        if is_without and not self._was_without:
            self._clock.progressed()
            self._clock.start()
        self._was_without = is_without

    def stop(self) -> None:
        self._clock.stop()
