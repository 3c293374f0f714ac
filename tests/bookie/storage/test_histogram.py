"""The histogram of a bookie's hot paths tells a registry what Prometheus' own one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.samples import Sample

from bookie.storage.storage_metrics import GROUP_BYTES, SECONDS, CheapHistogram
from metadata.counting.metric_declarations import Declaration, MetricKind

AMOUNTS = st.floats(0, 2**25) | st.sampled_from([*SECONDS, *GROUP_BYTES])


def declared(bounds: tuple[float, ...]) -> Declaration:
    return Declaration("some_seconds", MetricKind.HISTOGRAM, "Told.", buckets=bounds)


def told_by(registry: CollectorRegistry) -> list[Sample]:
    return [
        sample
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


@given(st.lists(AMOUNTS, max_size=30), st.sampled_from([SECONDS, GROUP_BYTES]))
def test_what_is_observed_is_told_as_prometheus_own_histogram_tells_it(
    amounts: list[float], bounds: tuple[float, ...]
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    cheap = CheapHistogram(ours, declared(bounds))
    usual = Histogram("some_seconds", "Told.", buckets=bounds, registry=theirs)
    for amount in amounts:
        cheap.observe(amount)
        usual.observe(amount)
    assert told_by(ours) == told_by(theirs)


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    CheapHistogram(registry, declared(SECONDS))
    with pytest.raises(ValueError, match="some_seconds"):
        CheapHistogram(registry, declared(SECONDS))


def test_the_buckets_show_a_quarter_of_a_millisecond_to_ten_seconds() -> None:
    assert SECONDS[0] == 0.00025 and SECONDS[-1] == 10.0
    assert list(SECONDS) == sorted(SECONDS)
