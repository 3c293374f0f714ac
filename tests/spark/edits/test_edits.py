"""`format("edits")` on a real Spark: rows against the codec's own decoding of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from qjm_compat.edits import encode_op, iter_segment
from qjm_compat.edits.ops import namespace
from spark.edits.fields import EARLIEST_MS, LATEST_MS
from tests.qjm_compat.edits.real_segments import FOLDER, NAMES, needs_segments, segment
from tests.qjm_compat.transfer.made_directories import (
    finalized,
    frame,
    version,
)
from tests.spark.conftest import Cluster
from tests.spark.made_journals import Journals


@pytest.fixture(scope="module")
def journals(cluster: Cluster) -> Journals:
    return Journals(cluster.uri)


@needs_segments
def test_a_real_namespaces_history_is_a_table(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    for name in NAMES[1:3]:
        (tmp_path / name).symlink_to(FOLDER / name)
    journals.bring("real", tmp_path)
    ops = [op for name in NAMES[1:3] for op in iter_segment(segment(name))]
    frame = journals.read(spark, "real", partition_bytes=200_000)
    assert frame.rdd.getNumPartitions() > 3
    rows = frame.select("txid", "op", "path", "body", "rpc_call_id").orderBy("txid").collect()
    assert [(row.txid, row.op) for row in rows] == [(op.txid, op.name) for op in ops]
    assert [bytes(row.body) for row in rows] == [encode_op(op, -63) for op in ops]
    deleted = frame.where("op = 'OP_DELETE'")
    assert [row.path for row in deleted.orderBy("txid").collect()] == [
        op.path for op in ops if isinstance(op, namespace.Delete)
    ]


def test_edits_are_chosen_by_their_txids(journals: Journals, spark: SparkSession, tmp_path: Path) -> None:
    version(tmp_path)
    for first in (1, 11, 21):
        finalized(tmp_path, first, first + 9)
    journals.bring("ranged", tmp_path, ("a", "b", "c"))
    found = journals.read(spark, "ranged", acceptors="a,b,c", from_txid=5, to_txid=23, partition_bytes=1)
    assert [row.txid for row in found.select("txid").orderBy("txid").collect()] == list(range(5, 24))
    assert found.rdd.getNumPartitions() >= 3
    with pytest.raises(PySparkException, match="there is no journal ranged at acceptor main"):
        journals.read(spark, "ranged").count()
    assert journals.read(spark, "ranged", acceptors="a,b,c", from_txid=31).collect() == []


def test_a_first_txid_that_is_not_there_is_an_error_and_no_empty_answer(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    for first in (11, 21):
        finalized(tmp_path, first, first + 9)
    journals.bring("purged", tmp_path)
    with pytest.raises(
        PySparkException, match="no longer has txids 1 to 10, which were purged: the oldest is 11"
    ):
        journals.read(spark, "purged", from_txid=1, to_txid=5).count()
    with pytest.raises(PySparkException, match="end at txid 30, but 100 was requested"):
        journals.read(spark, "purged", from_txid=100).count()
    assert journals.read(spark, "purged", to_txid=15).count() == 5


def test_a_gap_between_segments_is_an_error_not_a_shorter_table(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    finalized(tmp_path, 1, 10)
    finalized(tmp_path, 15, 20)
    journals.bring("gaps", tmp_path, allow_gaps=True)
    with pytest.raises(PySparkException, match="no finalized segment from txid 11 to 14"):
        journals.read(spark, "gaps").count()
    assert journals.read(spark, "gaps", from_txid=12).select(f.count("*")).collect() == [(6,)]


def test_times_at_the_ends_of_what_python_shows_are_collected_and_kept(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    times = [EARLIEST_MS - 1, EARLIEST_MS, LATEST_MS, LATEST_MS + 1]
    ops = [namespace.Delete(txid=n, path="/a", timestamp_ms=ms) for n, ms in enumerate(times, 1)]
    journals.write("times", ops)
    frame = journals.read(spark, "times").select("txid", "timestamp").orderBy("txid")
    rows = frame.collect()
    assert [row.timestamp is None for row in rows] == [True, False, False, True]
    assert rows[0].txid == 1 and rows[1].timestamp.year == 1 and rows[2].timestamp.year == 9999
    frame.write.parquet(f"{tmp_path}/kept")
    assert spark.read.parquet(f"{tmp_path}/kept").orderBy("txid").collect() == rows


def test_a_segment_whose_ledger_is_gone_is_named_before_anything_is_read(
    cluster: Cluster, journals: Journals, spark: SparkSession
) -> None:
    journals.write_frames("lost", [frame(1), frame(2)])
    (row,) = spark.read.format("ledger").options(metadata=cluster.uri, journal="lost").load().collect()
    cluster.client.delete_ledger(row.ledger_id)
    expected = f"segment 1 of journal lost has lost its ledger {row.ledger_id}, .* from_txid=3"
    with pytest.raises(PySparkException, match=expected):
        journals.read(spark, "lost").count()
