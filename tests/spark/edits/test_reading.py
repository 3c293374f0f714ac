"""What one task reads of a segment's ledger, over real bookies and without a Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from bookledger.cli.processes import BOOKLEDGER
from ledgers import DigestType, LedgerError
from qjm_compat.batch import Batch, entries_of
from qjm_compat.edits import encode_frame
from spark.edits.frames import SLICE_BYTES
from spark.edits.reading import SegmentRange, record_batches
from spark.executor_access import ExecutorAccess
from spark.planning.ranges import LedgerRange
from tests.qjm_compat.transfer.made_directories import LAYOUT, frame, frames
from tests.spark.conftest import Cluster

EVERY_TXID = 2**63 - 1


def ranges_of(ledger_id: int, first_entry: int, last_entry: int) -> list[SegmentRange]:
    return [SegmentRange(1, LAYOUT, LedgerRange(ledger_id, first_entry, last_entry), 1, EVERY_TXID)]


def txids(cluster: Cluster, ledger_id: int, cuts: Sequence[tuple[int, int]]) -> list[list[int]]:
    """What each of the tasks reads."""
    return [
        [
            txid
            for batch in record_batches(ExecutorAccess(cluster.uri), ranges_of(ledger_id, *cut), ["txid"])
            for txid in batch.column("txid").to_pylist()
        ]
        for cut in cuts
    ]


def test_what_follows_a_batch_that_was_given_up_is_read_by_one_task(cluster: Cluster) -> None:
    """Its writer was gone before the last part, and the next one began anew with the same transactions."""
    given_up = entries_of(Batch(1, 6000, frames(1, 6000, 400)))[:2]
    again, more = Batch(1, 10, frames(1, 10)), Batch(11, 10, frames(11, 20))
    ledger_id = cluster.write(given_up + entries_of(again) + entries_of(more))
    first, second = list(range(1, 11)), list(range(11, 21))
    assert txids(cluster, ledger_id, [(0, 3)]) == [first + second]
    assert txids(cluster, ledger_id, [(0, 0), (1, 3)]) == [[], first + second]
    assert txids(cluster, ledger_id, [(0, 1), (2, 3)]) == [[], first + second]
    assert txids(cluster, ledger_id, [(0, 2), (3, 3)]) == [first, second]


def test_a_batch_that_ends_behind_a_range_is_of_the_task_it_begins_in(cluster: Cluster) -> None:
    large, small = Batch(1, 6000, frames(1, 6000, 400)), Batch(6001, 5, frames(6001, 6005))
    parts = entries_of(large)
    assert len(parts) == 3
    ledger_id = cluster.write(parts + entries_of(small))
    first, second = list(range(1, 6001)), list(range(6001, 6006))
    assert txids(cluster, ledger_id, [(0, 0), (1, 3)]) == [first, second]
    assert txids(cluster, ledger_id, [(0, 1), (2, 2), (3, 3)]) == [first, [], second]


def test_a_large_batch_becomes_rows_a_slice_at_a_time(cluster: Cluster) -> None:
    batch = Batch(1, 20_000, frames(1, 20_000, 400))
    ledger_id = cluster.write(entries_of(batch))
    found = list(record_batches(ExecutorAccess(cluster.uri), ranges_of(ledger_id, 0, 100), ["txid", "body"]))
    assert sum(one.num_rows for one in found) == 20_000
    assert len(found) >= len(batch.records) / (3 * SLICE_BYTES)
    assert max(one.num_rows for one in found) <= 2 * SLICE_BYTES / len(frame(1, 400))


def test_an_edit_that_nobody_can_decode_is_named_with_its_segment(cluster: Cluster) -> None:
    records = frame(1) + encode_frame(127, 2, b"who knows") + frame(3)
    ledger_id = cluster.write(entries_of(Batch(1, 3, records)))
    expected = f"segment 1 of the journal, in ledger {ledger_id}: txid 2, of op code 127, cannot be decoded"
    with pytest.raises(LedgerError, match=expected):
        list(record_batches(ExecutorAccess(cluster.uri), ranges_of(ledger_id, 0, 0), ["txid", "path"]))
    assert txids(cluster, ledger_id, [(0, 0)]) == [[1, 2, 3]]


def test_a_segment_that_was_purged_before_its_task_began_is_named(cluster: Cluster) -> None:
    ledger_id = cluster.write(entries_of(Batch(1, 3, frames(1, 3))))
    cluster.client.delete_ledger(ledger_id)
    expected = f"segment 1 of the journal, in ledger {ledger_id}: ledger .* deleted after this job .*purged"
    with pytest.raises(LedgerError, match=expected):
        txids(cluster, ledger_id, [(0, 0)])


def test_a_segment_that_is_purged_while_it_is_read_is_named(cluster: Cluster) -> None:
    entries = [
        entry
        for first in range(1, 20_001, 1000)
        for entry in entries_of(Batch(first, 1000, frames(first, first + 999, 2000)))
    ]
    ledger_id = cluster.write(entries)
    batches = record_batches(ExecutorAccess(cluster.uri), ranges_of(ledger_id, 0, len(entries) - 1), ["body"])
    next(batches)
    cluster.client.delete_ledger(ledger_id)
    collect = [sys.executable, *BOOKLEDGER, "bookie", "gc", "run", "--all"]
    subprocess.run(collect, env=os.environ | {"BOOKLEDGER_METADATA": cluster.uri}, check=True)
    expected = f"segment 1 of the journal, in ledger {ledger_id}: ledger .* deleted after this job .*purged"
    with pytest.raises(LedgerError, match=expected):
        list(batches)


def test_a_journals_password_is_for_those_of_its_ledgers_that_have_one(cluster: Cluster) -> None:
    entries = entries_of(Batch(1, 3, frames(1, 3)))
    plain = cluster.write(entries)
    guarded = cluster.write(entries, password=b"open sesame", digest=DigestType.HMAC_SHA256)
    ranges = ranges_of(plain, 0, 0) + ranges_of(guarded, 0, 0)
    found = record_batches(ExecutorAccess(cluster.uri, b"open sesame"), ranges, ["txid"])
    assert [one.num_rows for one in found] == [6]
    with pytest.raises(LedgerError, match=f"in ledger {guarded}: the password does not match"):
        list(record_batches(ExecutorAccess(cluster.uri, b"sesame"), ranges, ["txid"]))
