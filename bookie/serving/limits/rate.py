"""A rate limit (token bucket): a peer that overspends pauses until its balance is positive again."""

from __future__ import annotations

from collections.abc import Callable


class Rate:
    """Earns `a_second` each second, and keeps at most one second's worth. `now` is the loop's clock."""

    def __init__(self, a_second: float, now: Callable[[], float]) -> None:
        self._a_second = a_second
        self._now = now
        self._left = a_second
        self._earned_at = now()

    def spend(self, amount: float) -> float:
        """Always spends the amount; returns the number of seconds to pause until the balance is positive again."""
        now = self._now()
        earned = (now - self._earned_at) * self._a_second
        self._left = min(self._a_second, self._left + earned) - amount
        self._earned_at = now
        return max(0.0, -self._left / self._a_second)
