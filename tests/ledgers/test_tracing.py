"""What a client tells of its lanes: which frame belongs to which span, and how each ends."""

from __future__ import annotations

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bookie.wire import Columns, of_payloads
from bookie.wire.trace_context import decode
from ledgers.observing.client_tracing import ClientTraces, LaneTraces
from metadata.records.ledger_record import BookieRef


@pytest.fixture
def told() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def lanes(told: InMemorySpanExporter) -> LaneTraces:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(told))
    lanes = LaneTraces(ClientTraces(provider), 7, lambda _: Context())
    lanes.opened(1, BookieRef("b1", "incarnation"))
    return lanes


def entries(first: int, last: int) -> Columns:
    payloads = [b"x"] * (last - first + 1)
    return of_payloads(first, payloads, b"d" * len(payloads))


def names(told: InMemorySpanExporter) -> list[tuple[object, str | None]]:
    """The first entry of each span that ended, and what it says of a failure."""
    return [
        ((span.attributes or {})["bookledger.first_entry"], span.status.description)
        for span in told.get_finished_spans()
    ]


def test_a_batch_ends_when_the_bookie_has_all_of_it(lanes: LaneTraces, told: InMemorySpanExporter) -> None:
    lanes.sent(1, entries(0, 4))
    lanes.sent(1, entries(5, 9))
    lanes.acked(1, 3)
    assert names(told) == []
    lanes.acked(1, 5)
    assert names(told) == [(0, None)]
    lanes.acked(1, 9)
    assert names(told) == [(0, None), (5, None)]


def test_a_frame_belongs_to_the_first_batch_that_it_has_entries_of(lanes: LaneTraces) -> None:
    for first in (0, 5, 10):
        lanes.sent(1, entries(first, first + 4))
    traces = [lanes.trace_of(1, first) for first in (0, 3, 5, 12)]
    assert traces[0] == traces[1]
    assert len({*traces}) == 3
    assert all(decode(trace) for trace in traces)


def test_what_was_not_acknowledged_fails_with_its_lane(lanes: LaneTraces, told: InMemorySpanExporter) -> None:
    lanes.sent(1, entries(0, 4))
    lanes.sent(1, entries(5, 9))
    lanes.acked(1, 4)
    lanes.failed(1, "no answer for 5 s")
    lanes.closed(1)
    assert names(told) == [(0, None), (5, "no answer for 5 s")]


def test_a_lane_that_is_closed_ends_what_it_had_and_knows_no_frame(
    lanes: LaneTraces, told: InMemorySpanExporter
) -> None:
    lanes.sent(1, entries(0, 4))
    lanes.closed(1)
    lanes.acked(1, 4)
    assert names(told) == [(0, None)]
    assert lanes.trace_of(1, 0) == b""
