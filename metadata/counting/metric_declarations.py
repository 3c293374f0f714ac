"""Declarations of metrics: each metric is declared once, with its type, labels, meaning and BookKeeper equivalent.

Both the metrics that a process exports to Prometheus and docs/metrics.md are generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.utils import floatToGoString

PREFIX = "bookledger"

UNITS = ("seconds", "bytes")
"""Units that a metric's name may end with."""


class MetricKind(StrEnum):
    """A metric's type in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}

Family = CounterMetricFamily | GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class Declaration:
    """One metric. `base`: its name without the suffix of its type; `bookkeeper`: the name of the equivalent metric in
    BookKeeper."""

    base: str
    kind: MetricKind
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    bookkeeper: str = ""

    @property
    def name(self) -> str:
        """The metric's name in Prometheus; the series of a histogram have further suffixes."""
        return self.base + _SUFFIXES.get(self.kind, "")

    @property
    def unit(self) -> str:
        return next((unit for unit in UNITS if self.base.endswith(f"_{unit}")), "")

    # --- metrics whose values are looked up when Prometheus scrapes ---------------------------------------

    def family(self) -> Family:
        """Returns a metric without samples; the caller adds a sample for each combination of labels."""
        assert self.kind in (MetricKind.COUNTER, MetricKind.GAUGE)
        kind = CounterMetricFamily if self.kind is MetricKind.COUNTER else GaugeMetricFamily
        return kind(self.base, self.description, labels=self.labels, unit=self.unit)

    def of(self, value: float) -> Family:
        """Returns a metric without labels, with this value as its only sample."""
        assert not self.labels
        family = self.family()
        family.add_metric((), value)
        return family

    def of_counts(self, counts: Sequence[int], total: float) -> HistogramMetricFamily:
        """Returns a histogram with a single sample. `counts` contains the count in each bucket, then the count above
        the last bucket; `total` is the sum."""
        assert self.kind is MetricKind.HISTOGRAM
        names = [*map(floatToGoString, self.buckets), "+Inf"]
        buckets = list(zip(names, accumulate(counts), strict=True))
        return HistogramMetricFamily(
            self.base, self.description, buckets=buckets, sum_value=total, unit=self.unit
        )

    def about(self, facts: Mapping[str, str]) -> InfoMetricFamily:
        """Returns an info metric with these facts as its only sample."""
        assert self.kind is MetricKind.INFO
        return InfoMetricFamily(self.base, self.description, value=dict(facts))

    # --- metrics that are counted as events happen ------------------------------------------------

    def counter_in(self, registry: CollectorRegistry) -> Counter:
        assert self.kind is MetricKind.COUNTER
        return Counter(self.base, self.description, self.labels, registry=registry, unit=self.unit)

    def gauge_in(self, registry: CollectorRegistry) -> Gauge:
        assert self.kind is MetricKind.GAUGE
        return Gauge(self.base, self.description, self.labels, registry=registry, unit=self.unit)

    def histogram_in(self, registry: CollectorRegistry) -> Histogram:
        assert self.kind is MetricKind.HISTOGRAM
        return Histogram(
            self.base, self.description, self.labels, registry=registry, unit=self.unit, buckets=self.buckets
        )


class MetricTable:
    """The metrics of one part of a process, in the order in which they are declared.

    `part`: the part's name, which follows PREFIX in the metrics' names; `title`: a human-readable name of the part.
    """

    def __init__(self, part: str, title: str) -> None:
        self.title = title
        self.declared: list[Declaration] = []
        self._prefix = f"{PREFIX}_{part}"

    def counter(self, name: str, description: str, *labels: str, bookkeeper: str = "") -> Declaration:
        return self._add(
            Declaration(self._named(name), MetricKind.COUNTER, description, labels, bookkeeper=bookkeeper)
        )

    def gauge(self, name: str, description: str, *labels: str, bookkeeper: str = "") -> Declaration:
        return self._add(
            Declaration(self._named(name), MetricKind.GAUGE, description, labels, bookkeeper=bookkeeper)
        )

    def histogram(
        self, name: str, description: str, buckets: tuple[float, ...], *, bookkeeper: str = ""
    ) -> Declaration:
        return self._add(
            Declaration(
                self._named(name), MetricKind.HISTOGRAM, description, buckets=buckets, bookkeeper=bookkeeper
            )
        )

    def info(self, description: str, *labels: str) -> Declaration:
        """Returns an info metric, named after the part."""
        return self._add(Declaration(self._prefix, MetricKind.INFO, description, labels))

    def _named(self, name: str) -> str:
        return f"{self._prefix}_{name}"

    def _add(self, one: Declaration) -> Declaration:
        self.declared.append(one)
        return one
