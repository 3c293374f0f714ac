"""OpenTelemetry context propagation over the data protocol. Imported only if tracing is configured.

A trace's context is sent in an optional field of appends, reads and fences, in the form that `encode` returns. Peers
that do not know the field ignore it, and peers that do not trace omit it, so the field requires no new protocol
version. If a bookie's client is older or does not trace, the bookie's spans begin new traces, which can be found by
their ledger and entries.
"""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, Tracer, TracerProvider
from opentelemetry.trace.propagation import set_span_in_context

from .messages import NO_TRACE

TRACER = "bookledger"

LEDGER, FIRST, LAST, BYTES = (
    f"bookledger.{name}" for name in ("ledger_id", "first_entry", "last_entry", "payload_bytes")
)
BOOKIE, STATUS, ENTRIES = (f"bookledger.{name}" for name in ("bookie", "status", "entries"))

_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
TRACE_BYTES = _TRACE_ID_BYTES + _SPAN_ID_BYTES + 1


def tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer(TRACER)


def encode(span: Span) -> bytes:
    """Encodes the span's context: trace id, span id, flags."""
    context = span.get_span_context()
    if not context.is_valid:
        return NO_TRACE
    ids = context.trace_id.to_bytes(_TRACE_ID_BYTES, "big") + context.span_id.to_bytes(_SPAN_ID_BYTES, "big")
    return ids + bytes([context.trace_flags & 0xFF])


def decode(trace: bytes) -> Context:
    """Decodes the parent context of a span; returns an empty context if the peer sent none or an invalid one."""
    if len(trace) != TRACE_BYTES:
        return Context()
    trace_id = int.from_bytes(trace[:_TRACE_ID_BYTES], "big")
    span_id = int.from_bytes(trace[_TRACE_ID_BYTES:-1], "big")
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(trace[-1]))
    return set_span_in_context(NonRecordingSpan(remote), Context()) if remote.is_valid else Context()
