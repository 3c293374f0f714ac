"""What an operator asks of a bookie's upkeep, and its report, as bytes."""

from __future__ import annotations

import pytest

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
from tests.bookie.messages import whole


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
