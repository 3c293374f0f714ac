"""A trace on the wire: an optional field, and what else may stand in it."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import INVALID_SPAN, get_current_span

from bookie.wire import bookie_pb2 as pb
from bookie.wire import codec, of_payloads
from bookie.wire.messages import AppendRequest, Frame, LacRequest, ReadRequest
from bookie.wire.trace_context import TRACE_BYTES, decode, encode, tracer_of
from tests.bookie.messages import whole

TRACE = bytes(range(1, TRACE_BYTES + 1))


def test_a_trace_comes_through_the_codec_with_appends_reads_and_fences() -> None:
    columns = of_payloads(0, [b"one"], b"d")
    append = AppendRequest("incarnation", 1, (Frame(7, columns, trace=TRACE), Frame(8, columns)))
    assert codec.decode(AppendRequest, whole(codec.encode(append))) == append
    read = ReadRequest("incarnation", 7, 0, 9, 1000, trace=TRACE)
    assert codec.decode(ReadRequest, whole(codec.encode(read))) == read
    fence = LacRequest("incarnation", 7, fence=True, trace=TRACE)
    assert codec.decode(LacRequest, whole(codec.encode(fence))) == fence


def test_who_does_not_trace_sends_not_a_byte_more() -> None:
    assert pb.ReadRequest(trace=b"").SerializeToString() == pb.ReadRequest().SerializeToString()


def test_a_span_is_the_same_at_the_other_end() -> None:
    span = tracer_of(TracerProvider(shutdown_on_exit=False)).start_span("x")
    there, here = get_current_span(decode(encode(span))).get_span_context(), span.get_span_context()
    assert (there.trace_id, there.span_id, there.trace_flags) == (
        here.trace_id,
        here.span_id,
        here.trace_flags,
    )
    assert there.is_remote


@pytest.mark.parametrize("trace", [b"", b"x", TRACE[:-1], TRACE + b"x", bytes(TRACE_BYTES), TRACE * 1000])
def test_what_is_no_trace_is_nobodys(trace: bytes) -> None:
    assert not get_current_span(decode(trace)).get_span_context().is_valid


def test_a_span_that_is_none_is_not_sent() -> None:
    assert encode(INVALID_SPAN) == b""
