"""Spans of one client: of each batch with its lanes, of each page, of each recovery. Imported only where it traces.

What a bookie does for a span is a child of it, also in the bookie's process (`bookie/wire/tracing`). Everything is
told for a batch or a page at a time, never for an entry.
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
from bookie.wire.tracing import BOOKIE, BYTES, ENTRIES, FIRST, LAST, LEDGER, encode, tracer_of
from metadata.records.ledger_record import BookieRef

from ..errors import LedgerError

Request = TypeVar("Request", ReadRequest, LacRequest)


class ClientTraces:
    """Those of one client. Belongs to its event loop."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = tracer_of(provider)

    @contextmanager
    def reading(self, ledger_id: int, first_entry: int, fetched: list[Columns]) -> Iterator[None]:
        """A page is fetched inside the block, and put into `fetched`."""
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
        """A recovery is under way inside the block."""
        with self.tracer.start_as_current_span("ledger.recover", attributes={LEDGER: ledger_id}):
            yield

    @contextmanager
    def asking(self, bookie: BookieRef, request: Request) -> Iterator[Request]:
        """The request as it goes to this bookie inside the block."""
        about: dict[str, int | str] = {LEDGER: request.ledger_id, BOOKIE: bookie.bookie_id}
        with self.tracer.start_as_current_span("ledger.ask", kind=SpanKind.CLIENT, attributes=about) as span:
            yield replace(request, trace=encode(span))


class _Batch(NamedTuple):
    first_entry: int
    last_entry: int
    span: Span


@dataclass(frozen=True, slots=True)
class _Lane:
    """What one lane was given: all of it that is not acknowledged, and of that what is in no frame yet."""

    bookie: BookieRef
    unacked: deque[_Batch]
    unframed: deque[_Batch]


class LaneTraces:
    """A span for each batch on each lane of a ledger, until the bookie has it on disk.

    `parent_of` gives the context of whoever sends this entry.
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
        batch = _Batch(first, last, span)
        known.unacked.append(batch)
        known.unframed.append(batch)

    def trace_of(self, lane: int, first_entry: int) -> bytes:
        """For a frame that begins with this entry; several batches in one frame are told by the first of them."""
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
        """What it was given may or may not be on the bookie's disk."""
        if lane in self._lanes:
            _fail(self._lanes[lane].unacked, why)

    def closed(self, lane: int) -> None:
        """Nothing more comes of it."""
        known = self._lanes.pop(lane, None)
        for batch in known.unacked if known else ():
            batch.span.end()


def lanes_of_current(traces: ClientTraces, ledger_id: int) -> LaneTraces:
    """All that is sent on them is a part of what goes on now."""
    now = get_current()
    return LaneTraces(traces, ledger_id, lambda _: now)


class WriterTraces:
    """A span for each batch of one writer, from taking it in until it is confirmed. Belongs to its event loop."""

    def __init__(self, traces: ClientTraces, ledger_id: int) -> None:
        self._tracer = traces.tracer
        self._ledger_id = ledger_id
        self._asked_by = Context()
        self._batches: deque[_Batch] = deque()
        self.lanes = LaneTraces(traces, ledger_id, self._context_of)

    def begins(self) -> None:
        """Somebody appends the first entry of what will be taken together: it is a part of his work."""
        self._asked_by = get_current()

    def taken(self, columns: Columns) -> None:
        """A batch is in the machine."""
        first, last = columns.first_entry, columns.last_entry
        about = {LEDGER: self._ledger_id, FIRST: first, LAST: last}
        span = self._tracer.start_span(
            "ledger.append", self._asked_by, attributes={**about, BYTES: len(columns.payload)}
        )
        self._batches.append(_Batch(first, last, span))

    def answered(self, last_entry: int) -> None:
        """Everything up to this entry has what its append waits for."""
        while self._batches and self._batches[0].last_entry <= last_entry:
            self._batches.popleft().span.end()

    def ended(self, error: LedgerError) -> None:
        """The writer has ended; what it has not confirmed has failed."""
        _fail(self._batches, str(error))

    def _context_of(self, entry_id: int) -> Context:
        """Of the batch that has the entry; what is sent has just been taken as a rule."""
        for batch in reversed(self._batches):
            if batch.first_entry <= entry_id:
                return set_span_in_context(batch.span, self._asked_by)
        return Context()


def _fail(batches: deque[_Batch], why: str) -> None:
    for batch in batches:
        batch.span.set_status(StatusCode.ERROR, why)
        batch.span.end()
    batches.clear()
