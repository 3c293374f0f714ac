"""Computes rates per second from two snapshots of a bookie's counters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bookie.wire import InfoReply


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per second. `appends`: a latency histogram, that is, the number of frames in each bucket, whose upper
    limits are in `bounds`, followed by the number of slower frames."""

    entries: float = 0.0
    bytes: float = 0.0
    entries_read: float = 0.0
    bytes_read: float = 0.0
    syncs: float = 0.0
    bounds: tuple[float, ...] = ()
    appends: tuple[int, ...] = ()

    def quantile(self, share: float) -> float | None:
        """Returns the latency in seconds at this quantile of appends; None if there were no appends, or if their
        latencies are unknown.

        Latencies above the last bound count as that bound.
        """
        wanted = share * sum(self.appends)
        if not wanted:
            return None
        lower = 0.0
        for bound, count in zip(self.bounds, self.appends, strict=False):
            if wanted <= count:
                return lower + (bound - lower) * wanted / count
            wanted, lower = wanted - count, bound
        return lower


@dataclass(frozen=True, slots=True)
class Chart:
    """Values over a period of `seconds`, oldest first, drawn as a line and scaled from 0 at the bottom to `top`."""

    values: tuple[float, ...] = ()
    seconds: float = 0.0

    @property
    def top(self) -> float:
        return max(self.values, default=0.0)

    @property
    def is_drawn(self) -> bool:
        """Whether there are enough values to draw a line: a single value is not enough."""
        return len(self.values) > 1

    def points(self, width: int, height: int) -> str:
        """Returns the points of the chart's SVG polyline."""
        top = self.top or 1.0
        step = width / max(1, len(self.values) - 1)
        return " ".join(
            f"{n * step:.1f},{1 + (height - 2) * (1 - value / top):.1f}"
            for n, value in enumerate(self.values)
        )


def between(before: InfoReply, after: InfoReply, seconds: float) -> Rates | None:
    """Returns the rates between two snapshots; None if the bookie restarted, which resets its counters."""
    if seconds <= 0 or before.incarnation != after.incarnation:
        return None
    grown = [
        now - then
        for then, now in (
            (before.entries_added, after.entries_added),
            (before.bytes_added, after.bytes_added),
            (before.entries_read, after.entries_read),
            (before.bytes_read, after.bytes_read),
            (before.syncs, after.syncs),
        )
    ]
    appends = _grown(before, after)
    if min(grown) < 0 or min(appends, default=0) < 0:
        return None
    entries, size, entries_read, size_read, syncs = (one / seconds for one in grown)
    return Rates(entries, size, entries_read, size_read, syncs, after.append_seconds_bounds, appends)


def together(rates: Iterable[Rates]) -> Rates:
    """Returns the sum of the rates of several bookies. Histograms are summed if their bounds agree."""
    every = list(rates)
    bounds = next((one.bounds for one in every if one.bounds), ())
    alike = [one.appends for one in every if one.bounds == bounds and one.appends]
    return Rates(
        sum(one.entries for one in every),
        sum(one.bytes for one in every),
        sum(one.entries_read for one in every),
        sum(one.bytes_read for one in every),
        sum(one.syncs for one in every),
        bounds,
        tuple(map(sum, zip(*alike, strict=True))) if alike else (),
    )


def _grown(before: InfoReply, after: InfoReply) -> tuple[int, ...]:
    if before.append_seconds_bounds != after.append_seconds_bounds:
        return ()
    return tuple(now - then for then, now in zip(before.append_counts, after.append_counts, strict=True))
