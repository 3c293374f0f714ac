"""Latencies of the last minutes in bounded memory: what Hadoop's percentile metrics show.

A window is cut into slices of time; each slice counts latencies by size class, eight classes to a doubling, so a
percentile is right to a tenth. A window of an hour forgets in steps of six minutes.
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


@dataclass(slots=True)
class _Slice:
    began: float
    classes: Counter[int] = field(default_factory=Counter)


class Latencies:
    """Latencies in whole microseconds over the last `window_seconds`. `now` is the caller's clock."""

    def __init__(self, window_seconds: float) -> None:
        self._slice_seconds = window_seconds / SLICES
        self._window_seconds = window_seconds
        self._slices: deque[_Slice] = deque(maxlen=SLICES + 1)

    def add(self, seconds: float, now: float) -> None:
        if not self._slices or now - self._slices[-1].began >= self._slice_seconds:
            self._slices.append(_Slice(now))
        self._slices[-1].classes[_class_of(seconds * 1e6)] += 1

    def count(self, now: float) -> int:
        """How many there were."""
        return sum(self._recent(now).values())

    def percentile_micros(self, percentile: int, now: float) -> int:
        """The latency that so many in a hundred did not exceed; 0 where there were none."""
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


def _class_of(micros: float) -> int:
    return 0 if micros < 1 else 1 + int(math.log2(micros) * CLASSES_TO_A_DOUBLING)


def _upper_end(number: int) -> float:
    return 1.0 if number == 0 else 2.0 ** (number / CLASSES_TO_A_DOUBLING)


def percentiles(prefix: str, latencies: Latencies) -> dict[str, int]:
    """Count and percentiles of a window as it is now, by Hadoop's names that begin so; in microseconds."""
    now = time.monotonic()
    values = {f"{prefix}NumOps": latencies.count(now)}
    for percentile in PERCENTILES:
        name = f"{prefix}{percentile}thPercentileLatencyMicros"
        values[name] = latencies.percentile_micros(percentile, now)
    return values
