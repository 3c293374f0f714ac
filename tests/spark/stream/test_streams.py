"""`readStream.format("ledger")` on a real Spark: each ledger once, however often it is started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from qjm_compat.edits import iter_ops
from tests.qjm_compat.transfer.made_directories import LAYOUT, frames
from tests.spark.conftest import Cluster, fill
from tests.spark.journals import write_segments
from tests.support.aio import run
from tests.support.waiting import until

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
        with self.running(availableNow=True) as query:
            assert query.awaitTermination(120)
        return self.batches[before:]

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[StreamingQuery]:
        stream = self.spark.readStream.format("ledger").option("metadata", self.cluster.uri)
        writer = stream.options(**self.options).load().writeStream.foreachBatch(self._take)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
        try:
            yield query
        finally:
            query.stop()

    def write(self) -> int:
        """Another ledger of the kind that it follows, of three entries."""
        return self.cluster.write([ENTRY] * 3, custom_metadata=self.kind)

    @property
    def kind(self) -> dict[str, bytes]:
        return {"kind": self.options["custom.kind"].encode()}

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


def ids_of(rows: list[tuple[int, int]]) -> list[int]:
    return sorted({ledger_id for ledger_id, _ in rows})


def joined(batches: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [row for batch in batches for row in batch]


@pytest.mark.long
def test_a_rate_limit_makes_batches_of_whole_ledgers(follower: Follower) -> None:
    ids = [follower.write() for _ in range(5)]
    follower.options["max_bytes_per_trigger"] = "6500"
    assert [ids_of(batch) for batch in follower.run()] == [ids[:2], ids[2:4], ids[4:]]
    assert follower.rows == [(ledger_id, n) for ledger_id in ids for n in range(3)]


def test_a_restart_from_the_checkpoint_goes_on_where_it_was(follower: Follower) -> None:
    first = [follower.write() for _ in range(2)]
    assert ids_of(follower.rows) == [] and [ids_of(b) for b in follower.run()] == [first]
    assert follower.run() == []
    later = follower.write()
    assert [ids_of(batch) for batch in follower.run()] == [[later]]
    assert len(follower.rows) == len(set(follower.rows)) == 9


def test_a_batch_that_was_not_finished_is_repeated_exactly(follower: Follower) -> None:
    ids = [follower.write() for _ in range(2)]
    follower.sees = refuse
    with pytest.raises(PySparkException, match="Refused"):
        follower.run()
    ids.append(follower.write())
    follower.sees = lambda rows: None
    assert [ids_of(batch) for batch in follower.run()] == [ids[:2], ids[2:]]
    assert follower.batches[0] == follower.batches[1]


def refuse(rows: list[tuple[int, int]]) -> None:
    raise Refused


def test_ledgers_are_delivered_as_they_close_in_any_order(cluster: Cluster, follower: Follower) -> None:
    early, open_one = follower.write(), cluster.writer(custom_metadata=follower.kind)
    late = follower.write()
    assert ids_of(joined(follower.run())) == [early, late]
    fill(open_one, [ENTRY] * 2)
    assert follower.run() == []
    open_one.close()
    assert follower.run() == [[(open_one.ledger_id, 0), (open_one.ledger_id, 1)]]


def test_a_stream_that_never_ends_takes_up_what_is_written_meanwhile(follower: Follower) -> None:
    ids = [follower.write()]
    with follower.running(processingTime="0 seconds") as query:
        query.processAllAvailable()
        ids.append(follower.write())
        query.processAllAvailable()
    assert ids_of(follower.rows) == ids and len(follower.rows) == 6


def test_a_ledger_deleted_while_the_stream_was_stopped_ends_it_until_it_may_be_left_out(
    cluster: Cluster, follower: Follower
) -> None:
    ids = [cluster.write([ENTRY]) for _ in range(2)]
    follower.options = {"ledgers": f"{ids[0]}-{2**40}"}
    assert [ids_of(batch) for batch in follower.run()] == [ids]
    later = [cluster.write([ENTRY]) for _ in range(3)]
    cluster.client.delete_ledger(later[1])
    with pytest.raises(
        PySparkException, match=f"ledger {later[1]} was deleted before .*failOnDataLoss=false"
    ):
        follower.run()
    follower.options["failOnDataLoss"] = "false"
    assert [ids_of(batch) for batch in follower.run()] == [[later[0], later[2]]]
    cluster.client.delete_ledger(last := cluster.write([ENTRY]))
    assert joined(follower.run()) == [] and last > later[2]
    del follower.options["failOnDataLoss"]
    assert follower.run() == []


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


def test_a_stream_does_not_recover_and_says_so(follower: Follower) -> None:
    follower.options["recover"] = "true"
    with pytest.raises(
        PySparkException, match="recover does not apply to streams, which wait until a ledger is closed"
    ):
        follower.run()


def test_a_query_outlives_its_metadata_being_away(
    cluster: Cluster, spark: SparkSession, follower: Follower
) -> None:
    ids = [follower.write()]
    # Also of triggers that find nothing there is progress to be seen.
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    try:
        with follower.running(processingTime="100 milliseconds") as query:
            until(lambda: len(follower.batches) == 1)
            with file_away(cluster.uri):
                for _ in range(3):
                    wait_for_a_trigger(query)
            ids.append(follower.write())
            until(lambda: len(follower.batches) == 2 or not query.isActive)
            assert query.isActive
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert ids_of(follower.rows) == ids


def wait_for_a_trigger(query: StreamingQuery) -> None:
    before = query.lastProgress
    until(lambda: query.lastProgress != before or not query.isActive)


@contextmanager
def file_away(uri: str) -> Iterator[None]:
    """The metadata's file is somewhere else meanwhile."""
    path = Path(uri.removeprefix("sqlite://"))
    away = path.with_suffix(".away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)
