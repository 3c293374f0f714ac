"""Prometheus' rules for a metrics page, checked without promtool: names, units, types, help, labels, buckets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

OTHER_UNITS = (
    "ms", "millis", "milliseconds", "micros", "microseconds", "ns", "minutes", "hours", "days",
    "kb", "mb", "gb", "kib", "mib", "gib", "kilobytes", "megabytes", "bits", "percent",
)  # fmt: skip
"""Prometheus wants seconds, bytes and ratios."""

UNITS = ("seconds", "bytes")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
COUNTER = re.compile(r"^# TYPE (\S+) counter$", re.MULTILINE)
SERIES = ("_bucket", "_count", "_sum")
MADE_AT = "_created"
"""When a counter was made: prometheus-client's own, which daemons leave out."""


def families(page: str) -> list[Metric]:
    """Those of a page; what the library adds to them is left out."""
    return [one for one in text_string_to_metric_families(page) if not one.name.endswith(MADE_AT)]


def violations(page: str, *, without_units: str = "") -> list[str]:
    """What is wrong with the page. `without_units`: metrics whose names begin so keep those of another system."""
    found = [
        f"{name}: it is a counter and its name does not end with _total"
        for name in COUNTER.findall(page)  # the parser makes up for that
        if not name.endswith("_total")
    ]
    for family in families(page):
        is_ours = not (without_units and family.name.startswith(without_units))
        found += [f"{family.name}: {what}" for what in _of_family(family, with_units=is_ours)]
    return found


def _of_family(family: Metric, *, with_units: bool) -> Iterator[str]:
    yield from _of_name(family)
    if with_units:
        yield from _of_unit(family)
    if not family.documentation:
        yield "it has no help"
    for sample in family.samples:
        for label in sample.labels:
            if not SNAKE_CASE.fullmatch(label):
                yield f"its label {label} is not in snake_case"
            if label == "le" and family.type != "histogram":
                yield "it has the label le and is no histogram"
    if family.type == "histogram":
        yield from _of_histogram(family)


def _of_name(family: Metric) -> Iterator[str]:
    if not SNAKE_CASE.fullmatch(family.name):
        yield "its name is not in snake_case"
    if family.type not in TYPES:
        yield f"its type is {family.type}"
    named = {sample.name for sample in family.samples}
    if family.type != "counter" and any(name.endswith("_total") for name in named):
        yield "it is no counter and its name ends with _total"
    if family.type == "gauge" and family.name.endswith(SERIES):
        yield "its name ends as the series of a histogram do"
    if any(f"_{kind}" in family.name for kind in TYPES):
        yield "its name has its type in it"


def _of_unit(family: Metric) -> Iterator[str]:
    words = family.name.split("_")
    for word in words:
        if word in OTHER_UNITS:
            yield f"its unit is {word}, and no base unit"
    for unit in UNITS:
        if unit in words and words[-1] != unit:
            yield f"its unit {unit} does not stand last"


def _of_histogram(family: Metric) -> Iterator[str]:
    series: defaultdict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        series[labels].append(sample)
    for samples in series.values():
        buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
        bounds = [float(sample.labels["le"]) for sample in buckets]
        if not bounds or bounds[-1] != float("inf") or bounds != sorted(bounds):
            yield "its buckets do not rise to +Inf"
        if any(more.value < less.value for less, more in pairwise(buckets)):
            yield "its buckets are not cumulative"
        counts = [sample.value for sample in samples if sample.name.endswith("_count")]
        if not buckets or counts != [buckets[-1].value]:
            yield "its count is not its last bucket"
        if not [sample for sample in samples if sample.name.endswith("_sum")]:
            yield "it has no sum"
