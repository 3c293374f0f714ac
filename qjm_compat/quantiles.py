"""Latency percentiles over sliding windows in bounded memory, as in Hadoop's metrics.

A window is divided into time slices. Each slice is a histogram with eight buckets per doubling, so a percentile is
accurate to within 10%. A one-hour window drops data in steps of six minutes.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field

SLICES = 10
CLASSES_TO_A_DOUBLING = 8
PERCENTILES = (50, 75, 90, 95, 99)
WINDOWS_SECONDS = (60, 300, 3600)

NEW_MAX = 256
"""Maximum number of latencies that are buffered before they are counted."""

COUNT_SECONDS = 1.0
"""Latencies that arrive within this period are counted as if all had arrived at the time of the last one, so the bounds
of a window are accurate only to within this period."""


@dataclass(slots=True)
class _Slice:
    began: float
    classes: Counter[int] = field(default_factory=Counter)


class QuantileWindow:
    """A histogram of latencies in whole microseconds over the last `window_seconds`. `now` is a reading of the caller's
    clock."""

    def __init__(self, window_seconds: float) -> None:
        self._slice_seconds = window_seconds / SLICES
        self._window_seconds = window_seconds
        self._slices: deque[_Slice] = deque(maxlen=SLICES + 1)

    def add(self, counted: Counter[int], now: float) -> None:
        """Adds latencies, given as counts per bucket. All of them were measured shortly before `now`."""
        if not self._slices or now - self._slices[-1].began >= self._slice_seconds:
            self._slices.append(_Slice(now))
        self._slices[-1].classes.update(counted)

    def count(self, now: float) -> int:
        """Returns the number of latencies in the window."""
        return sum(self._recent(now).values())

    def percentile_micros(self, percentile: int, now: float) -> int:
        """Returns the latency at a percentile, or 0 if there are no latencies."""
        classes = self._recent(now)
        left = math.ceil(sum(classes.values()) * percentile / 100)
        for number in sorted(classes):
            left -= classes[number]
            if left <= 0:
                return round(_upper_end(number))
        return 0

    def _recent(self, now: float) -> Counter[int]:
        total: Counter[int] = Counter()
        for part in self._slices:
            if now - part.began <= self._window_seconds:
                total += part.classes
        return total


class Latencies:
    """Latencies of batches, over all windows. `now` is a reading of the caller's clock.

    Latencies are counted in bulk, because counting each one separately in every window costs as much as writing a batch
    to disk.
    """

    def __init__(self) -> None:
        self.windows = {seconds: QuantileWindow(seconds) for seconds in WINDOWS_SECONDS}
        self._new: list[float] = []
        self._newest_at = 0.0
        self._count_at = 0.0

    def add(self, seconds: float, now: float) -> None:
        """Adds one latency."""
        if now >= self._count_at or len(self._new) >= NEW_MAX:
            self._count_new()
            self._count_at = now + COUNT_SECONDS
        self._new.append(seconds)
        self._newest_at = now

    def count(self, window_seconds: int, now: float) -> int:
        """Returns the number of latencies in a window."""
        return self._window(window_seconds).count(now)

    def percentile_micros(self, window_seconds: int, percentile: int, now: float) -> int:
        """Returns the latency at a percentile of a window, or 0 if the window has no latencies."""
        return self._window(window_seconds).percentile_micros(percentile, now)

    def _window(self, window_seconds: int) -> QuantileWindow:
        self._count_new()
        return self.windows[window_seconds]

    def _count_new(self) -> None:
        if self._new:
            counted = Counter(_class_of(seconds * 1e6) for seconds in self._new)
            self._new.clear()
            for window in self.windows.values():
                window.add(counted, self._newest_at)


def _class_of(micros: float) -> int:
    return 0 if micros < 1 else 1 + int(math.log2(micros) * CLASSES_TO_A_DOUBLING)


def _upper_end(number: int) -> float:
    return 1.0 if number == 0 else 2.0 ** (number / CLASSES_TO_A_DOUBLING)


def percentiles(prefix: str, latencies: Latencies) -> dict[str, int]:
    """Returns the current count and percentiles (in microseconds) of each window, under Hadoop's names with this
    prefix."""
    now = time.monotonic()
    values = {}
    for seconds in WINDOWS_SECONDS:
        values[f"{prefix}{seconds}sNumOps"] = latencies.count(seconds, now)
        for percentile in PERCENTILES:
            name = f"{prefix}{seconds}s{percentile}thPercentileLatencyMicros"
            values[name] = latencies.percentile_micros(seconds, percentile, now)
    return values
