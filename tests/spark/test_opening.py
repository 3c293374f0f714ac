"""The ledgers of a job are opened with its password, or without, and say so if they are gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ledgers import LedgerError, Unauthorized
from ledgers.cli.processes import BOOKLEDGER
from metadata.ledger_record import DigestType
from spark.access import Access
from spark.planning import EntryRange
from spark.reading import record_batches
from tests.spark.conftest import Cluster

PASSWORD = b"open sesame"
LARGE = 3000
"""Entries of 4 KB that no task reads ahead all at once."""


def rows(cluster: Cluster, password: bytes, *ledger_ids: int) -> int:
    ranges = [EntryRange(ledger_id, 0, 1) for ledger_id in ledger_ids]
    return sum(
        batch.num_rows for batch in record_batches(Access(cluster.uri, password), ranges, ["entry_id"])
    )


def test_a_password_is_for_the_ledgers_that_have_one(cluster: Cluster) -> None:
    plain = cluster.write([b"x", b"y"])
    guarded = cluster.write([b"x", b"y"], password=PASSWORD, digest=DigestType.HMAC_SHA256)
    assert rows(cluster, PASSWORD, plain, guarded) == 4
    with pytest.raises(Unauthorized, match=f"does not fit ledger {guarded}"):
        rows(cluster, b"sesame", plain, guarded)
    with pytest.raises(Unauthorized, match=f"does not fit ledger {guarded}"):
        rows(cluster, b"", plain, guarded)


def test_a_ledger_that_is_deleted_while_it_is_read_was_there_when_the_job_was_planned(
    cluster: Cluster,
) -> None:
    ledger_id = cluster.write([bytes(4096)] * LARGE)
    wanted = [EntryRange(ledger_id, 0, LARGE - 1)]
    batches: Iterator[object] = iter(record_batches(Access(cluster.uri), wanted, ["payload"]))
    next(batches)
    cluster.client.delete_ledger(ledger_id)
    collect = [sys.executable, *BOOKLEDGER, "bookie", "gc", "run", "--all"]
    subprocess.run(collect, env=os.environ | {"BOOKLEDGER_METADATA": cluster.uri}, check=True)
    with pytest.raises(LedgerError, match=f"ledger {ledger_id} was deleted after this job had been planned"):
        for _ in batches:
            pass
