"""Mean call times as in Hadoop's metrics: over the last interval that had calls."""

from __future__ import annotations

from collections import defaultdict

INTERVAL_SECONDS = 10.0
"""Hadoop's own default (`*.period` of hadoop-metrics2.properties)."""


class MeanTime:
    """The mean of times. `now` is the caller's clock."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = 0
        self._seconds = 0.0
        self._last_millis = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._turn(now)
        if not self._count:
            self._began = now
        self._count += 1
        self._seconds += seconds

    def millis(self, now: float) -> float:
        """The mean of the last complete interval with calls; during the first interval, the mean so far."""
        self._turn(now)
        return self._last_millis or self._mean_millis()

    def _turn(self, now: float) -> None:
        if self._count and now - self._began >= INTERVAL_SECONDS:
            self._last_millis = self._mean_millis()
            self._count, self._seconds = 0, 0.0

    def _mean_millis(self) -> float:
        return 1000 * self._seconds / self._count if self._count else 0.0


class CallTimes:
    """Times of a node's calls. `queued`: from a call's arrival until its start; `processed`: until its answer."""

    def __init__(self) -> None:
        self.queued = MeanTime()
        self.processed = MeanTime()
        self.by_method: dict[str, MeanTime] = defaultdict(MeanTime)

    def answered(self, method: str, seconds: float, now: float) -> None:
        self.processed.add(seconds, now)
        self.by_method[method].add(seconds, now)
