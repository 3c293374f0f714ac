"""A bookie formatted anew under the name of one that was given up serves as any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bookie.serving.directory import format_directory
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from tests.support.in_process import on_bookies


@pytest.mark.parametrize("kind", [OrderKind.GIVEN_UP, OrderKind.DRAIN])
async def test_a_replacement_ends_the_order_for_the_former_disk(tmp_path: Path, kind: OrderKind) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        await cluster.stop("b1")
        await operator_requests.give(cluster.store, Order("b1", kind, 1))
        shutil.rmtree(tmp_path / "b1")
        await format_directory(tmp_path / "b1", "b1", cluster.store, replace=True)
        await cluster.start("b1")
        assert await operator_requests.read(cluster.store, "b1") is None
        assert cluster.running["b1"].health.why_not_ready() == ""
        async with await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            await writer.append(b"on all three")
        assert {one.bookie_id for one in writer.record.fragments[-1].ensemble} == {"b1", "b2", "b3"}


async def test_maintenance_is_of_the_host_and_goes_on(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, _):
        await cluster.stop("b1")
        await operator_requests.give(cluster.store, Order("b1", OrderKind.MAINTENANCE, 1))
        shutil.rmtree(tmp_path / "b1")
        await format_directory(tmp_path / "b1", "b1", cluster.store, replace=True)
        order = await operator_requests.read(cluster.store, "b1")
        assert order is not None and order.kind is OrderKind.MAINTENANCE
