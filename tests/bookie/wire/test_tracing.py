"""A trace on the wire: an optional field that older peers pass over, and what else may stand in it."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import INVALID_SPAN, get_current_span

from bookie.wire import bookie_pb2 as pb
from bookie.wire import codec, of_payloads
from bookie.wire.messages import AppendRequest, Frame, LacRequest, ReadRequest
from bookie.wire.tracing import TRACE_BYTES, decode, encode, tracer_of
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


@pytest.mark.parametrize(
    "message",
    [
        pb.Frame(ledger_id=7, deferred_sync=True, trace=TRACE),
        pb.ReadRequest(ledger_id=7, first_entry=3, fence=True, trace=TRACE),
        pb.LastAddConfirmedRequest(ledger_id=7, wait_ms=3, fence=True, trace=TRACE),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_peer_that_does_not_know_the_field_understands_the_rest(
    message: pb.Frame | pb.ReadRequest | pb.LastAddConfirmedRequest,
) -> None:
    older = message_factory.GetMessageClass(
        _without_traces().FindMessageTypeByName(message.DESCRIPTOR.full_name)
    )
    understood = older.FromString(message.SerializeToString())
    known = {field.name: value for field, value in understood.ListFields()}
    assert known == {field.name: value for field, value in message.ListFields() if field.name != "trace"}


def _without_traces() -> descriptor_pool.DescriptorPool:
    """The protocol as it was before there were any."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    removed = 0
    for message in file.message_type:
        for field in [field for field in message.field if field.name == "trace"]:
            message.field.remove(field)
            removed += 1
    assert removed == 3
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def test_who_does_not_trace_sends_not_a_byte_more() -> None:
    assert pb.Frame(ledger_id=7, trace=b"").SerializeToString() == pb.Frame(ledger_id=7).SerializeToString()


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
