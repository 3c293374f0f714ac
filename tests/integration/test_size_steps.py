"""Real bookies tell where the bytes of a ledger lie."""

from __future__ import annotations

from itertools import accumulate

import pytest

from bookie.serving.request_processor import RequestProcessor
from bookie.wire import HoldingsReply, HoldingsRequest, Status
from ledgers.aio import LedgerClient
from ledgers.bookies.connected_bookies import ConnectedBookies
from metadata.records.ledger_record import LedgerRecord
from tests.support.in_process import QUICK, InProcessCluster

SMALL, LARGE = 10, 300_000
SIZES = [SMALL] * 4000 + [LARGE] * 20 + [SMALL] * 4000
STEP_BYTES = 200_000
FRAME_AND_ENTRY_BYTES = 1024 * 1024 + LARGE
"""How much lies between two frames' beginnings at most."""


async def skewed(client: LedgerClient, shape: tuple[int, int, int]) -> LedgerRecord:
    e, w, a = shape
    async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
        for size in SIZES:
            await writer.append_async(b"x" * size)
    return await client.describe_ledger(writer.ledger_id)


async def error_bytes(client: LedgerClient, record: LedgerRecord) -> int:
    """How far the steps are off at most."""
    true = [0, *accumulate(SIZES)]
    steps = await client.size_steps(record, step_bytes=STEP_BYTES)
    assert (steps[0], steps[-1]) == ((0, 0), (len(SIZES), sum(SIZES)))
    return max(abs(step.bytes_before - true[step.entry_id]) for step in steps)


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 2)])
async def test_the_steps_are_near_the_truth_with_all_bookies_and_with_one_away(
    cluster: InProcessCluster, client: LedgerClient, shape: tuple[int, int, int]
) -> None:
    record = await skewed(client, shape)
    assert await error_bytes(client, record) <= FRAME_AND_ENTRY_BYTES
    await cluster.stop(record.fragments[0].ensemble[0].bookie_id)
    assert await error_bytes(client, record) <= FRAME_AND_ENTRY_BYTES * 2


async def cannot_tell(self: RequestProcessor, request: HoldingsRequest) -> HoldingsReply:
    return HoldingsReply(Status.BAD_REQUEST, detail="it is of a version that cannot tell")


async def test_bookies_that_cannot_tell_and_ledgers_that_are_open_are_told_apart(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await skewed(client, (3, 3, 2))
    monkeypatch.setattr(RequestProcessor, "holdings", cannot_tell)
    assert await client.size_steps(record, step_bytes=STEP_BYTES) == [(0, 0), (len(SIZES), sum(SIZES))]
    async with await client.create_ledger(ensemble_size=3) as writer:  # and is as good a bookie as before
        await writer.append_async(b"x")
        with pytest.raises(ValueError, match="only closed ledgers can be measured"):
            await client.size_steps(writer.record, step_bytes=1)
    for first, last, step_bytes in [(-1, 5, 1), (6, 4, 1), (0, len(SIZES), 1), (0, 5, 0), (0, 5, 2**64)]:
        with pytest.raises(ValueError, match="cannot measure entries"):
            await client.size_steps(record, first_entry=first, last_entry=last, step_bytes=step_bytes)


async def test_a_bookie_refuses_what_is_no_range_and_another_incarnation(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    record = await skewed(client, (3, 3, 2))
    (bookie, *_) = record.fragments[0].ensemble
    asked = ConnectedBookies(cluster.store, QUICK)
    try:
        for first, last, ledger_id in [(5, 4, 1), (-1, 4, 1), (0, 4, -1)]:
            request = HoldingsRequest(bookie.incarnation, ledger_id, first, last, 1)
            assert (await asked.holdings(bookie, request)).status is Status.BAD_REQUEST
        stale = HoldingsRequest("another", record.ledger_id, 0, 1, 1)
        assert (await asked.holdings(bookie, stale)).status is Status.WRONG_INCARNATION
        unknown = HoldingsRequest(bookie.incarnation, record.ledger_id + 1, 0, 2**63 - 1, 0)
        nothing = await asked.holdings(bookie, unknown)
        assert (nothing.holdings, nothing.covered_through) == ((), 2**63 - 1)
    finally:
        await asked.close()
