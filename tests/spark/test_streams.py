"""`readStream.format("ledger")` on a real Spark: each ledger once, however often it is started again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from ledgers import LedgerError
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits import iter_ops
from qjm_compat.requests import NamespaceInfo
from spark.options import LedgerOptions
from spark.stream import ClosedLedgersStream
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, LAYOUT, NAMESPACE_ID, frames
from tests.spark.conftest import Cluster, fill
from tests.support.aio import run

ENTRY = b"." * 1000


class Refused(Exception):
    """What a test's own sink raises."""


@dataclass
class Follower:
    """A query over the ledgers of one kind, with a checkpoint; what it was given, batch by batch."""

    spark: SparkSession
    cluster: Cluster
    checkpoint: Path
    options: dict[str, str]
    batches: list[list[tuple[int, int]]] = field(default_factory=list)
    sees: Callable[[list[tuple[int, int]]], None] = lambda rows: None

    def run(self) -> list[list[tuple[int, int]]]:
        """Everything that is there now; returns what this run was given."""
        before = len(self.batches)
        stream = self.spark.readStream.format("ledger").option("metadata", self.cluster.uri)
        writer = stream.options(**self.options).load().writeStream.foreachBatch(self._take)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return self.batches[before:]

    def _take(self, batch: DataFrame, _: int) -> None:
        rows = sorted(
            (row.ledger_id, row.entry_id) for row in batch.select("ledger_id", "entry_id").collect()
        )
        self.batches.append(rows)
        self.sees(rows)

    @property
    def rows(self) -> list[tuple[int, int]]:
        return joined(self.batches)


@pytest.fixture
def follower(spark: SparkSession, cluster: Cluster, tmp_path: Path, request: Any) -> Follower:
    return Follower(spark, cluster, tmp_path / "checkpoint", {"custom.kind": request.node.name})


def write(cluster: Cluster, request: Any, entries: int = 3) -> int:
    kind = {"kind": request.node.name.encode()}
    return cluster.write([ENTRY] * entries, custom_metadata=kind)


def ids_of(rows: list[tuple[int, int]]) -> list[int]:
    return sorted({ledger_id for ledger_id, _ in rows})


def joined(batches: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [row for batch in batches for row in batch]


def test_a_rate_limit_makes_batches_of_whole_ledgers(
    cluster: Cluster, follower: Follower, request: Any
) -> None:
    ids = [write(cluster, request) for _ in range(5)]
    follower.options["max_bytes_per_trigger"] = "6500"
    assert [ids_of(batch) for batch in follower.run()] == [ids[:2], ids[2:4], ids[4:]]
    assert follower.rows == [(ledger_id, n) for ledger_id in ids for n in range(3)]


def test_a_ledger_over_the_limit_is_a_batch_of_its_own(
    cluster: Cluster, follower: Follower, request: Any
) -> None:
    large, small = write(cluster, request, entries=10), write(cluster, request)
    follower.options["max_bytes_per_trigger"] = "4000"
    assert [ids_of(batch) for batch in follower.run()] == [[large], [small]]


def test_a_restart_from_the_checkpoint_goes_on_where_it_was(
    cluster: Cluster, follower: Follower, request: Any
) -> None:
    first = [write(cluster, request) for _ in range(2)]
    assert ids_of(follower.rows) == [] and [ids_of(b) for b in follower.run()] == [first]
    assert follower.run() == []
    later = write(cluster, request)
    assert [ids_of(batch) for batch in follower.run()] == [[later]]
    assert len(follower.rows) == len(set(follower.rows)) == 9


def test_a_batch_that_was_not_finished_is_repeated_exactly(
    cluster: Cluster, follower: Follower, request: Any
) -> None:
    ids = [write(cluster, request) for _ in range(2)]
    follower.sees = refuse
    with pytest.raises(PySparkException, match="Refused"):
        follower.run()
    ids.append(write(cluster, request))
    follower.sees = lambda rows: None
    assert [ids_of(batch) for batch in follower.run()] == [ids[:2], ids[2:]]
    assert follower.batches[0] == follower.batches[1]


def refuse(rows: list[tuple[int, int]]) -> None:
    raise Refused


def test_ledgers_are_delivered_as_they_close_in_any_order(
    cluster: Cluster, follower: Follower, request: Any
) -> None:
    kind = {"kind": request.node.name.encode()}
    early, open_one = write(cluster, request), cluster.writer(custom_metadata=kind)
    late = write(cluster, request)
    assert ids_of(joined(follower.run())) == [early, late]
    fill(open_one, [ENTRY] * 2)
    assert follower.run() == []
    open_one.close()
    assert follower.run() == [[(open_one.ledger_id, 0), (open_one.ledger_id, 1)]]


def test_an_empty_ledger_is_delivered_as_nothing(cluster: Cluster, follower: Follower, request: Any) -> None:
    empty, full = write(cluster, request, entries=0), write(cluster, request)
    assert ids_of(joined(follower.run())) == [full] and empty < full
    assert follower.run() == []


def test_a_stream_that_never_ends_takes_up_what_is_written_meanwhile(
    cluster: Cluster, spark: SparkSession, follower: Follower, request: Any
) -> None:
    ids = [write(cluster, request)]
    stream = spark.readStream.format("ledger").option("metadata", cluster.uri).options(**follower.options)
    writer = stream.load().writeStream.foreachBatch(follower._take)
    query = writer.option("checkpointLocation", str(follower.checkpoint)).start()
    try:
        query.processAllAvailable()
        ids.append(write(cluster, request))
        query.processAllAvailable()
    finally:
        query.stop()
    assert ids_of(follower.rows) == ids and len(follower.rows) == 6


def test_a_ledger_deleted_before_it_was_read_ends_the_stream_and_is_named(
    cluster: Cluster, request: Any
) -> None:
    ids = [write(cluster, request) for _ in range(2)]
    options = {"metadata": cluster.uri, "custom.kind": request.node.name}
    stream = ClosedLedgersStream(LedgerOptions.of(options), StructType().add("ledger_id", "long"))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert stream.latestOffset(end, ReadAllAvailable()) == end and stream.partitions(end, end) == []
    cluster.client.delete_ledger(ids[1])
    with pytest.raises(LedgerError, match=f"ledger {ids[1]} of this micro-batch is gone"):
        stream.partitions(start, end)


def test_a_journals_segments_are_followed_as_they_are_finalized(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    journal = {"journal": "followed", "max_bytes_per_trigger": "1"}
    follower = Follower(spark, cluster, tmp_path / "checkpoint", journal)
    run(write_segments(cluster.uri, "followed", [(1, 10), (11, 20)]))
    assert len(follower.run()) == 2
    assert follower.run() == []
    run(write_segments(cluster.uri, "followed", [(21, 25)]))
    assert len(follower.run()) == 1
    frame = cluster.read(spark, journal="followed").orderBy("ledger_id", "entry_id")
    header = len(bytes(frame.first().payload)) - len(frames(1, 10))  # type: ignore[union-attr]
    bodies = b"".join(bytes(row.payload)[header:] for row in frame.collect())
    assert [op.txid for op in iter_ops(bodies, LAYOUT)] == list(range(1, 26))
    assert len(follower.rows) == frame.count()


async def write_segments(uri: str, journal_id: str, segments: list[tuple[int, int]]) -> None:
    """Finalized ones of made-up edits; formats the journal before its first."""
    async with QuorumJournalManager(uri, journal_id) as manager:
        if segments[0][0] == 1:
            await manager.format(NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT))
        await manager.recover_unfinalized_segments()
        for first, last in segments:
            async with await manager.start_log_segment(first, LAYOUT) as out:
                out.write_raw(frames(first, last), last - first + 1)
                out.set_ready_to_flush()
                await out.flush()
            await manager.finalize_log_segment(first, last)
