"""OpenTelemetry spans of a client: for each batch and its lanes, each page and each recovery. Imported only if tracing
is enabled.

A bookie's spans are children of these spans, even in another process (`wire/trace_context`). One span per batch or
page, never per entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation import set_span_in_context

from bookie.wire import Columns, LacRequest, ReadRequest
from bookie.wire.trace_context import BOOKIE, BYTES, ENTRIES, FIRST, LAST, LEDGER, encode, tracer_of
from metadata.records.ledger_record import BookieRef

from ..errors import LedgerError

Request = TypeVar("Request", ReadRequest, LacRequest)


class ClientTraces:
    """Creates the spans of one client. Belongs to one event loop."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = tracer_of(provider)

    @contextmanager
    def reading(self, ledger_id: int, first_entry: int, fetched: list[Columns]) -> Iterator[None]:
        """Creates a span for the fetch inside the block, which puts its page into `fetched`."""
        with self.tracer.start_as_current_span(
            "ledger.read", attributes={LEDGER: ledger_id, FIRST: first_entry}
        ) as span:
            yield
            for columns in fetched:
                span.set_attributes(
                    {LAST: columns.last_entry, ENTRIES: len(columns), BYTES: len(columns.payload)}
                )

    @contextmanager
    def recovering(self, ledger_id: int) -> Iterator[None]:
        """Creates a span for the recovery inside the block."""
        with self.tracer.start_as_current_span("ledger.recover", attributes={LEDGER: ledger_id}):
            yield

    @contextmanager
    def asking(self, bookie: BookieRef, request: Request) -> Iterator[Request]:
        """Creates a span for a call to this bookie; yields the request with its trace context."""
        about: dict[str, int | str] = {LEDGER: request.ledger_id, BOOKIE: bookie.bookie_id}
        with self.tracer.start_as_current_span("ledger.ask", kind=SpanKind.CLIENT, attributes=about) as span:
            yield replace(request, trace=encode(span))


class _TracedBatch(NamedTuple):
    first_entry: int
    last_entry: int
    span: Span


@dataclass(frozen=True, slots=True)
class _Lane:
    """The batches of one lane that are not yet acknowledged, and those that are not yet in a frame."""

    bookie: BookieRef
    unacked: deque[_TracedBatch]
    unframed: deque[_TracedBatch]


class LaneTraces:
    """Creates a span for each batch on each lane of a ledger, which lasts until the bookie has the batch on disk.

    `parent_of` returns the trace context in which an entry was sent.
    """

    def __init__(self, traces: ClientTraces, ledger_id: int, parent_of: Callable[[int], Context]) -> None:
        self._tracer = traces.tracer
        self._ledger_id = ledger_id
        self._parent_of = parent_of
        self._lanes: dict[int, _Lane] = {}

    def opened(self, lane: int, bookie: BookieRef) -> None:
        self._lanes[lane] = _Lane(bookie, deque(), deque())

    def sent(self, lane: int, columns: Columns) -> None:
        known = self._lanes[lane]
        first, last = columns.first_entry, columns.last_entry
        about: dict[str, int | str] = {LEDGER: self._ledger_id, FIRST: first, LAST: last}
        about[BOOKIE] = known.bookie.bookie_id
        span = self._tracer.start_span("ledger.lane", self._parent_of(first), SpanKind.CLIENT, about)
        batch = _TracedBatch(first, last, span)
        known.unacked.append(batch)
        known.unframed.append(batch)

    def trace_of(self, lane: int, first_entry: int) -> bytes:
        """Returns the trace context of a frame that begins with this entry: the context of its first batch."""
        known = self._lanes.get(lane)
        if known is None:
            return b""
        while known.unframed and known.unframed[0].last_entry < first_entry:
            known.unframed.popleft()
        return encode(known.unframed[0].span) if known.unframed else b""

    def acked(self, lane: int, through: int) -> None:
        known = self._lanes.get(lane)
        while known and known.unacked and known.unacked[0].last_entry <= through:
            known.unacked.popleft().span.end()

    def failed(self, lane: int, why: str) -> None:
        """Fails the lane's open spans; their entries may or may not be on the bookie's disk."""
        if lane in self._lanes:
            _fail(self._lanes[lane].unacked, why)

    def closed(self, lane: int) -> None:
        """Ends the lane's open spans."""
        known = self._lanes.pop(lane, None)
        for batch in known.unacked if known else ():
            batch.span.end()


def lanes_of_current(traces: ClientTraces, ledger_id: int) -> LaneTraces:
    """Creates lane spans as children of the current span."""
    now = get_current()
    return LaneTraces(traces, ledger_id, lambda _: now)


class WriterTraces:
    """Creates a span for each batch of one writer, which lasts from when the batch is taken in until it is confirmed.
    Belongs to one event loop."""

    def __init__(self, traces: ClientTraces, ledger_id: int) -> None:
        self._tracer = traces.tracer
        self._ledger_id = ledger_id
        self._asked_by = Context()
        self._batches: deque[_TracedBatch] = deque()
        self.lanes = LaneTraces(traces, ledger_id, self._context_of)

    def begins(self) -> None:
        """Makes the current context, which is that of the next batch's first append, the parent of that batch."""
        self._asked_by = get_current()

    def taken(self, columns: Columns) -> None:
        """Starts the span of a batch that the state machine has taken in."""
        first, last = columns.first_entry, columns.last_entry
        about = {LEDGER: self._ledger_id, FIRST: first, LAST: last}
        span = self._tracer.start_span(
            "ledger.append", self._asked_by, attributes={**about, BYTES: len(columns.payload)}
        )
        self._batches.append(_TracedBatch(first, last, span))

    def answered(self, last_entry: int) -> None:
        """Ends the spans of batches whose appends have completed through this entry."""
        while self._batches and self._batches[0].last_entry <= last_entry:
            self._batches.popleft().span.end()

    def ended(self, error: LedgerError) -> None:
        """Fails the spans of unconfirmed batches when the writer ends."""
        _fail(self._batches, str(error))

    def _context_of(self, entry_id: int) -> Context:
        """Returns the context of the batch that contains the entry, usually the newest batch."""
        for batch in reversed(self._batches):
            if batch.first_entry <= entry_id:
                return set_span_in_context(batch.span, self._asked_by)
        return Context()


def _fail(batches: deque[_TracedBatch], why: str) -> None:
    for batch in batches:
        batch.span.set_status(StatusCode.ERROR, why)
        batch.span.end()
    batches.clear()
