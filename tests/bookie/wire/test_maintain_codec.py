"""What an operator asks of a bookie's upkeep, and its report, as bytes and back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire import bookie_pb2 as pb
from bookie.wire import codec
from bookie.wire.attachments import BadMessage, sealed
from bookie.wire.messages import (
    REPORT_BYTES_MAX,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    Status,
)
from tests.bookie.messages import statuses, text, whole, with_checksum


class Message(NamedTuple):
    """One kind of message: values of it, to bytes, and back."""

    values: st.SearchStrategy[Any]
    encode: Callable[[Any], list[bytes | memoryview]]
    decode: Callable[[bytes], Any]


KINDS = {
    "request": Message(
        st.builds(MaintainRequest, st.sampled_from(MaintenanceAction), text),
        codec.encode_maintain_request,
        codec.decode_maintain_request,
    ),
    "reply": Message(
        st.builds(MaintainReply, statuses, text, text),
        codec.encode_maintain_reply,
        codec.decode_maintain_reply,
    ),
}

of_every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@of_every_kind
@settings(max_examples=50)
@given(data=st.data())
def test_a_message_comes_back_as_it_was_sent(kind: Message, data: st.DataObject) -> None:
    message = data.draw(kind.values)
    assert kind.decode(whole(kind.encode(message))) == message


@of_every_kind
@settings(max_examples=50)
@given(garbage=st.binary(max_size=200))
def test_garbage_is_a_bad_message_or_some_message_and_nothing_else(kind: Message, garbage: bytes) -> None:
    with pytest.raises(BadMessage):
        kind.decode(garbage)
    with contextlib.suppress(BadMessage):
        kind.decode(with_checksum(garbage))


@of_every_kind
@settings(max_examples=50)
@given(data=st.data())
def test_a_message_that_was_changed_on_the_way_never_arrives_as_another_one(
    kind: Message, data: st.DataObject
) -> None:
    """A request to look must not arrive as one to repair."""
    sent = bytearray(whole(kind.encode(data.draw(kind.values))))
    sent[data.draw(st.integers(0, len(sent) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadMessage, match="checksum mismatch"):
        kind.decode(bytes(sent))


def test_every_act_of_maintenance_has_a_number_of_its_own_that_never_changes() -> None:
    numbers = {action.name: pb.MaintenanceAction.Value(action.name) for action in MaintenanceAction}
    assert numbers == {"STATUS": 0, "COLLECT": 1, "SUSPEND": 2, "RESUME": 3, "SCRUB": 4, "REPAIR": 5}


def test_a_request_that_says_nothing_only_asks_how_things_are() -> None:
    request = codec.decode_maintain_request(whole(sealed(pb.MaintainRequest())))
    assert request == MaintainRequest(MaintenanceAction.STATUS)


@pytest.mark.parametrize("number", [6, 2**31 - 1, -1])
def test_an_act_of_maintenance_that_nobody_knows_is_refused(number: int) -> None:
    request = pb.MaintainRequest(action=number)  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match=f"unknown act of maintenance {number}"):
        codec.decode_maintain_request(whole(sealed(request)))


@pytest.mark.parametrize("number", [0, 14])
def test_a_status_that_nobody_knows_is_refused(number: int) -> None:
    reply = pb.MaintainReply(status=number)  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match="unknown status"):
        codec.decode_maintain_reply(whole(sealed(reply)))


def test_a_report_at_its_limit_arrives_and_one_byte_more_is_refused() -> None:
    """Counted in UTF-8: an é takes two."""
    full = MaintainReply(Status.OK, report="é" * (REPORT_BYTES_MAX // 2))
    assert codec.decode_maintain_reply(whole(codec.encode_maintain_reply(full))) == full
    over = MaintainReply(Status.OK, report=full.report + "x")
    with pytest.raises(BadMessage, match=f"a report of {REPORT_BYTES_MAX + 1} bytes"):
        codec.decode_maintain_reply(whole(codec.encode_maintain_reply(over)))
