"""`readStream.format("log")`: each record once, over rolls, take-overs, growth and restarts."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ledgers import LedgerError, LogFenced, NoSuchLog, NoSuchPosition
from ledgers.blocking.log import Log
from spark.logs.options import LogOptions
from spark.logs.stream import LogStream
from spark.stream import metadata_stream as stream_metadata
from spark.stream.offsets import BadOffset
from tests.spark.conftest import Cluster
from tests.support.waiting import until

SCHEMA = StructType().add("log", "string").add("position", "long").add("payload", "binary")

_names = count()


class Stream:
    """A stream as Spark drives it: offsets go through JSON, and it can be started again; tasks run here."""

    def __init__(self, cluster: Cluster, **options: object) -> None:
        self._options = {"metadata": cluster.uri, **{name: str(value) for name, value in options.items()}}
        self.restart()
        self.offset = self.reader.initialOffset()

    def restart(self, **options: str) -> None:
        """Starts it again, with further options for this time."""
        self.reader = LogStream(LogOptions.of(self._options | options).for_stream(), SCHEMA)

    def plan(self, limit: ReadLimit | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        start = json.loads(json.dumps(self.offset))
        return start, json.loads(
            json.dumps(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit()))
        )

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
        """The rows of a batch."""
        tasks = self.reader.partitions(start, end)
        batches = [batch for task in tasks for batch in self.reader.read(task)]
        return [(row["log"], row["position"]) for batch in batches for row in batch.to_pylist()]

    def batch(self) -> list[tuple[str, int]]:
        start, end = self.plan()
        rows = self.read(start, end)
        self.offset = end
        return rows

    def positions(self) -> list[int]:
        """Of one log."""
        return [position for _, position in self.batch()]


@pytest.fixture
def log(cluster: Cluster) -> Log:
    return cluster.client.create_log(f"log-{next(_names)}", roll_records=10)


def append(log: Log, *numbers: int) -> None:
    """Takes the log over, and ends: so a stream knows the end of what it has appended."""
    with log.writer() as writer:
        for number in numbers:
            writer.append(b"%d" % number)


def test_each_record_is_in_one_batch_whatever_becomes_of_segments_and_writers(
    cluster: Cluster, log: Log
) -> None:
    stream = Stream(cluster, log=log.name)
    assert stream.positions() == []
    append(log, *range(25))
    assert stream.positions() == list(range(25))
    assert stream.positions() == []
    seen: list[int] = []

    def has_come_to(position: int) -> bool:
        seen.extend(stream.positions())
        return seen[-1:] == [position]

    with pytest.raises(LogFenced), log.writer() as writer:
        for n in range(25, 43):
            writer.append(b"%d" % n)
        until(lambda: has_come_to(42))
        append(log, 43, 44)  # takes over from the one that still runs
    stream.restart()
    assert seen + stream.positions() == list(range(25, 45))


def test_a_batch_that_was_planned_is_read_again_as_it_was(cluster: Cluster, log: Log) -> None:
    append(log, *range(15))
    stream = Stream(cluster, log=log.name)
    start, end = stream.plan()
    append(log, *range(15, 40))
    stream.restart()
    assert stream.read(start, end) == [(log.name, n) for n in range(15)]
    stream.offset = end
    assert stream.positions() == list(range(15, 40))


def test_a_stream_begins_where_it_was_told_to(cluster: Cluster, log: Log) -> None:
    append(log, *range(25))
    times = [record.time for record in log.read()]
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[13])
    assert Stream(cluster, log=log.name, startingPosition=21).positions() == [21, 22, 23, 24]
    assert Stream(cluster, log=log.name, startingTime=at.isoformat()).positions() == list(range(13, 25))
    with pytest.raises(NoSuchPosition):
        Stream(cluster, log=log.name, startingPosition=26).positions()


def test_a_stream_of_what_is_new_has_all_from_its_first_look_on(cluster: Cluster, log: Log) -> None:
    append(log, *range(5))
    stream = Stream(cluster, log=log.name, startingPosition="latest")
    assert stream.positions() == []
    append(log, 5, 6)
    stream.restart()
    assert stream.positions() == [5, 6], "the first offset is kept, though its batch had no record"


def test_a_batch_has_no_more_records_than_was_asked_for(cluster: Cluster, log: Log) -> None:
    append(log, *range(25))
    stream = Stream(cluster, log=log.name, maxRecordsPerTrigger=11)
    assert [stream.positions() for _ in range(4)] == [
        list(range(11)),
        list(range(11, 22)),
        [22, 23, 24],
        [],
    ]


def test_available_now_ends_with_what_its_first_look_found(cluster: Cluster, log: Log) -> None:
    append(log, *range(15))
    stream = Stream(cluster, log=log.name, maxRecordsPerTrigger=10)
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.positions() == list(range(10))
    append(log, *range(15, 30))
    assert stream.positions() == list(range(10, 15))
    assert stream.positions() == []
    stream.restart()
    assert stream.positions() == list(range(15, 25))


def test_a_set_that_grows_is_read_with_its_new_logs_from_their_first_record(cluster: Cluster) -> None:
    name = f"set-{next(_names)}"
    log_set = cluster.client.log_set(name, 2)

    def put(first: int, last: int) -> None:
        with log_set.writer() as writer:
            for n in range(first, last):
                writer.append(b"%d" % n, key=b"%d" % n)

    put(0, 20)
    stream = Stream(cluster, set=name, startingPosition="latest")
    assert stream.batch() == []
    put(20, 40)
    rows = stream.batch()
    log_set.grow(4)
    put(40, 100)
    rows += stream.batch()
    assert len(rows) == len(set(rows)) == 80
    last = Counter(log for log, _ in rows)
    assert set(last) == {f"{name}.{n}" for n in range(4)}
    for n in (2, 3):
        assert sorted(position for log, position in rows if log == f"{name}.{n}") == list(
            range(last[f"{name}.{n}"])
        )


def test_what_was_given_up_unread_ends_the_stream_unless_it_may_be_left_out(
    cluster: Cluster, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, *range(5))
    stream = Stream(cluster, log=log.name)
    assert stream.positions() == list(range(5))
    append(log, *range(5, 35))
    start, end = stream.plan()
    log.truncate(22)
    lost = rf"positions 5 to 21 of log {log.name} were truncated before the stream had read them"
    for attempt in (stream.plan, lambda: stream.read(start, end)):
        with pytest.raises(LedgerError, match=f"{lost}; .*failOnDataLoss"):
            attempt()
    stream.restart(failOnDataLoss="false")
    assert stream.read(start, end) == [(log.name, n) for n in range(22, 35)]
    assert stream.positions() == list(range(22, 35))
    assert "continues without the lost data: positions 5 to 21" in caplog.text
    stream.restart()
    assert stream.positions() == [], "the checkpoint keeps it: the option is needed once"


def test_another_log_of_the_name_is_not_taken_for_it(cluster: Cluster, log: Log) -> None:
    append(log, *range(5))
    stream = Stream(cluster, log=log.name)
    assert stream.positions() == list(range(5))
    cluster.client.delete_log(log.name)
    with pytest.raises(NoSuchLog):
        stream.positions()
    append(cluster.client.create_log(log.name), *range(9))
    stream.restart(failOnDataLoss="false")
    with pytest.raises(LedgerError, match=f"log {log.name} is not the log that was read up to position 4"):
        stream.positions()


def test_a_checkpoint_is_of_one_stream(cluster: Cluster, log: Log) -> None:
    stream = Stream(cluster, log="other")
    stream.offset = Stream(cluster, log=log.name).offset
    with pytest.raises(
        BadOffset, match=f"belongs to a stream of log {log.name}, but this is a stream of log other"
    ):
        stream.positions()


def test_a_stream_waits_for_bookies_that_do_not_say_how_far_a_log_is_confirmed(
    cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(cluster, log=log.name)
    with log.writer() as writer:
        writer.append(b"0")
        assert stream.batch() is not None
        for bookie in cluster.bookies:
            bookie.kill()
        assert stream.positions() == []
        monkeypatch.setattr(stream_metadata, "AWAY_SECONDS_MAX", 0.0)
        with pytest.raises(LedgerError, match="bookies have been unavailable for"):
            stream.positions()
        monkeypatch.undo()
        cluster.restart_all()
    until(lambda: stream.positions() == [0])


def wait_for_progress(query: StreamingQuery) -> None:
    until(lambda: query.lastProgress is not None or not query.isActive)


def test_a_stream_to_parquet_has_each_record_once_over_take_overs_rolls_growth_and_restarts(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    name = f"set-{next(_names)}"
    log_set = cluster.client.log_set(name, 2, roll_records=50)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    source = spark.readStream.format("log").option("metadata", cluster.uri).option("set", name)
    put = 0
    for turn in range(5):
        query = (
            source.option("maxRecordsPerTrigger", 40)
            .load()
            .writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        with log_set.writer() as writer:
            for _ in range(100):
                writer.append(b"%d" % put, key=b"%d" % (put % 17))
                put += 1
        wait_for_progress(query)
        query.stop()  # in the middle of a batch, as like as not
        assert query.exception() is None
        if turn == 2:
            log_set.grow(4)
    last = source.load().writeStream.format("parquet").option("path", out)
    query = last.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120) and query.exception() is None
    rows = spark.read.parquet(out)
    assert rows.count() == rows.select("log", "position").distinct().count() == put
    (total,) = rows.agg(f.sum(f.col("payload").cast("string").cast("long"))).first() or (None,)
    assert total == sum(range(put))
