"""What a bookie shows Prometheus of requests, of its limits, disk and index: looked up in its registry."""

from __future__ import annotations

from bookie.limits_config import Limits
from bookie.wire import codec
from bookie.wire.data.framing import FrameKind
from bookie.wire.messages import HoldingsRequest, Status
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import OK, Client


def shown(client: Client, name: str, **labels: str) -> float:
    found = client.bookie.bookie.metrics.registry.get_sample_value(f"bookledger_bookie_{name}", labels)
    assert found is not None, name
    return found


def refused(client: Client, request: str, status: Status) -> float:
    return shown(client, "refused_total", request=request, status=status.name.lower())


async def test_what_is_refused_is_counted_by_request_and_status(client: Client) -> None:
    assert (await client.last_add_confirmed(7, fence=True)).status is Status.NO_SUCH_LEDGER
    (ack,) = await client.append(client.request(0, frame_of(7, [0])))
    assert ack.status is Status.FENCED
    (ack,) = await client.append(client.request(0, frame_of(8, [0]), incarnation="another"))
    assert ack.status is Status.WRONG_INCARNATION
    assert (await client.read(404, 0, 1)).status is Status.NO_SUCH_LEDGER
    assert (await client.last_add_confirmed(9)).status is Status.NO_SUCH_LEDGER
    holdings = HoldingsRequest("another", 8, 0, 1, 1)
    await client.call(FrameKind.HOLDINGS, codec.encode(holdings))
    found = {
        ("append", Status.FENCED): 1,
        ("append", Status.WRONG_INCARNATION): 1,
        ("read", Status.NO_SUCH_LEDGER): 1,
        ("fence", Status.NO_SUCH_LEDGER): 1,
        ("last_add_confirmed", Status.NO_SUCH_LEDGER): 1,
        ("holdings", Status.WRONG_INCARNATION): 1,
    }
    assert {key: refused(client, *key) for key in found} == found
    samples = client.bookie.bookie.metrics.registry.collect()
    assert sum(
        sample.value
        for family in samples
        for sample in family.samples
        if sample.name == "bookledger_bookie_refused_total"
    ) == len(found), "and nothing else"


async def test_what_is_done_is_not_refused_and_is_counted_by_frame_entry_and_byte(client: Client) -> None:
    frames = frame_of(7, range(10), payload_bytes=3), frame_of(7, range(10, 15), payload_bytes=3)
    assert [ack.status for ack in await client.append(client.request(0, *frames))] == [OK, OK]
    assert len((await client.read(7, 0, 14)).columns) == 15
    assert shown(client, "append_seconds_count") == 2
    assert (shown(client, "append_entries_total"), shown(client, "append_bytes_total")) == (15, 45)
    assert shown(client, "read_seconds_count") == 1
    assert (shown(client, "read_entries_total"), shown(client, "read_bytes_total")) == (15, 45)
    assert not any(
        refused(client, "append", status) for status in Status if status not in (OK, Status.WRITTEN)
    )


async def test_the_state_of_disk_reserve_and_index_is_shown(client: Client) -> None:
    bookie = client.bookie.bookie
    assert shown(client, "ledgers") == 0
    await client.append(client.request(0, frame_of(7, [0]), frame_of(8, [0])))
    await bookie.checkpoint()
    assert shown(client, "ledgers") == 2
    assert 0 < shown(client, "index_bytes") < shown(client, "index_limit_bytes")
    size = int(shown(client, "reserve_bytes"))
    assert shown(client, "reserve_left_bytes") == size > 0 == shown(client, "reserve_in_use")
    assert bookie.space.reserve.release(size // 2)
    assert shown(client, "reserve_left_bytes") == size - max(size // 2, 64 * 1024)
    assert shown(client, "reserve_in_use") == 1


async def test_limits_of_counts_and_of_bytes_are_shown_apart_with_their_bounds(client: Client) -> None:
    async with client.stream():
        assert shown(client, "limit_held", limit="connections") == 1
        assert shown(client, "limit_held", limit="tools") == 0
        assert 1 < shown(client, "limit_max", limit="connections") <= Limits().connections_max
        assert shown(client, "limit_max_bytes", limit="received_bytes") == 64 * 1024 * 1024
        registry = client.bookie.bookie.metrics.registry
        assert registry.get_sample_value("bookledger_bookie_limit_held", {"limit": "received_bytes"}) is None
