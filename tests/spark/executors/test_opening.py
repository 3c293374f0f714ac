"""The ledgers of a job are opened with its password, or without, and say so if they are gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bookledger.cli.processes import BOOKLEDGER
from ledgers import LedgerError, MetadataUnavailable, Unauthorized
from ledgers.aio import LedgerClient
from metadata import open_store
from metadata.records.ledger_record import DigestType
from metadata.records.ledger_store import LedgerStore
from spark.executor_access import ExecutorAccess
from spark.executors.planned_ledgers import open_closed
from spark.executors.range_reader import record_batches
from spark.planning.ranges import LedgerRange
from tests.spark.conftest import Cluster
from tests.spark.made import closed
from tests.support.etcd import EtcdServer

PASSWORD = b"open sesame"
LARGE = 3000
"""Entries of 4 KB that no task reads ahead all at once."""


def rows(cluster: Cluster, password: bytes, *ledger_ids: int) -> int:
    ranges = [LedgerRange(ledger_id, 0, 1) for ledger_id in ledger_ids]
    return sum(
        batch.num_rows
        for batch in record_batches(ExecutorAccess(cluster.uri, password), ranges, ["entry_id"])
    )


def test_a_password_is_for_the_ledgers_that_have_one(cluster: Cluster) -> None:
    plain = cluster.write([b"x", b"y"])
    guarded = cluster.write([b"x", b"y"], password=PASSWORD, digest=DigestType.HMAC_SHA256)
    assert rows(cluster, PASSWORD, plain, guarded) == 4
    with pytest.raises(Unauthorized, match=f"does not match ledger {guarded}"):
        rows(cluster, b"sesame", plain, guarded)
    with pytest.raises(Unauthorized, match=f"ledger {guarded}: it has a password, and none was given"):
        rows(cluster, b"", plain, guarded)


def test_a_ledger_that_is_deleted_while_it_is_read_was_there_when_the_job_was_planned(
    cluster: Cluster,
) -> None:
    ledger_id = cluster.write([bytes(4096)] * LARGE)
    wanted = [LedgerRange(ledger_id, 0, LARGE - 1)]
    batches: Iterator[object] = iter(record_batches(ExecutorAccess(cluster.uri), wanted, ["payload"]))
    next(batches)
    cluster.client.delete_ledger(ledger_id)
    collect = [sys.executable, *BOOKLEDGER, "bookie", "gc", "run", "--all"]
    subprocess.run(collect, env=os.environ | {"BOOKLEDGER_METADATA": cluster.uri}, check=True)
    with pytest.raises(LedgerError, match=f"ledger {ledger_id} was deleted after this job was planned"):
        for _ in batches:
            pass


async def test_metadata_that_is_away_for_a_moment_is_asked_again(own_etcd: EtcdServer) -> None:
    uri = f"etcd://{own_etcd.endpoint}/prod?timeout=1"
    async with LedgerClient(uri) as client:
        store = await open_store(uri)
        await LedgerStore(store).create(closed(7, 2, 20))
        await store.close()
        await asyncio.to_thread(own_etcd.kill)
        with pytest.raises(MetadataUnavailable):
            await client.open_ledger(7, recovery=False)
        opening = asyncio.create_task(open_closed(client, 7, b""))
        await asyncio.wait([opening], timeout=0.5)
        assert not opening.done()
        await asyncio.to_thread(own_etcd.restart)
        assert (await opening).last_add_confirmed == 1
