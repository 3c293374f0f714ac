"""Asking a bookie to look after itself through the client: what comes back, and what ends it early."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bookie.wire.messages import REPORT_BYTES_MAX, MaintainReply, MaintainRequest, MaintenanceAction, Status
from ledgers import BookieUnavailable, LedgerClient, aio
from metadata.records.ledger_record import BookieRef
from tests.support.in_process import cluster_of
from tests.support.upkeep import give, never_ends, on_maintained, ref, replying, reports

SECONDS = 20.0
STOPPED_SOON_SECONDS = 5.0
"""Half of what a bookie that stops allows the calls it serves."""


async def test_a_bookie_without_maintenance_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, lambda _: None)
    async with cluster_of(tmp_path, 1) as cluster, aio.LedgerClient(cluster.uri) as client:
        request = MaintainRequest(MaintenanceAction.COLLECT)
        reply = await client.maintain_bookie(ref(cluster), request, SECONDS)
        assert reply == MaintainReply(Status.BAD_REQUEST, "this bookie does no maintenance")


async def test_the_blocking_client_asks_for_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_maintained(tmp_path, monkeypatch, reports) as (cluster, upkeep):
        request = MaintainRequest(MaintenanceAction.REPAIR, "old-1")

        def ask() -> MaintainReply:
            with LedgerClient(cluster.uri) as client:
                return client.maintain_bookie(ref(cluster), request, SECONDS)

        reply = await asyncio.to_thread(ask)
        assert json.loads(reply.report) == {"did": "repair", "bytes_freed": 4096}
        assert upkeep.asked == [("b1", request)]


async def test_another_incarnation_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W7"""
    async with on_maintained(tmp_path, monkeypatch, reports) as (cluster, upkeep):
        async with aio.LedgerClient(cluster.uri) as client:
            with pytest.raises(BookieUnavailable, match="another incarnation is registered"):
                await client.maintain_bookie(
                    BookieRef("b1", "old"), MaintainRequest(MaintenanceAction.REPAIR), SECONDS
                )
        assert not upkeep.asked


async def test_a_report_over_the_limit_is_left_out_and_the_reply_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = replying(Status.OK, "done", "x" * (REPORT_BYTES_MAX + 1))
    async with on_maintained(tmp_path, monkeypatch, answer) as (cluster, _):
        async with aio.LedgerClient(cluster.uri) as client:
            reply = await client.maintain_bookie(
                ref(cluster), MaintainRequest(MaintenanceAction.SCRUB), SECONDS
            )
        size = REPORT_BYTES_MAX + 1
        over = f"its report of {size} bytes was omitted; the limit is {REPORT_BYTES_MAX}"
        assert reply == MaintainReply(Status.OK, f"done; {over}")


async def test_a_caller_that_goes_away_ends_what_it_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        on_maintained(tmp_path, monkeypatch, never_ends) as (cluster, upkeep),
        aio.LedgerClient(cluster.uri) as client,
    ):
        request = MaintainRequest(MaintenanceAction.SCRUB)
        asking = asyncio.create_task(client.maintain_bookie(ref(cluster), request, SECONDS))
        await upkeep.begun.wait()
        asking.cancel()
        await upkeep.cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_bookie_that_stops_does_not_wait_for_its_own_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        on_maintained(tmp_path, monkeypatch, never_ends) as (cluster, upkeep),
        aio.LedgerClient(cluster.uri) as client,
    ):
        request = MaintainRequest(MaintenanceAction.SCRUB)
        asking = asyncio.create_task(client.maintain_bookie(ref(cluster), request, SECONDS))
        await upkeep.begun.wait()
        async with asyncio.timeout(STOPPED_SOON_SECONDS):
            await cluster.stop("b1")
        assert await asking == MaintainReply(Status.STOPPING, "the bookie is stopping")
        assert upkeep.cancelled.is_set()
