"""Metrics of the process, for every daemon."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)


def process_registry() -> CollectorRegistry:
    """Returns a registry with the process's own metrics."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the creation times of counters are not needed
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
