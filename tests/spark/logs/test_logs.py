"""`format("log")` on a real Spark over real bookies: what it gives, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ledgers import ClientConfig, LedgerClient, NewRecord
from tests.spark.conftest import Cluster
from tests.support.secrets import password_file
from tests.support.waiting import until

RECORDS = 3000
ROLL = 700


def frame_of(cluster: Cluster, spark: SparkSession, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("log").option("metadata", cluster.uri).options(**given).load()


def payload_of(position: int) -> bytes:
    return b"%d" % position * (position % 50)


@pytest.fixture(scope="module")
def orders(cluster: Cluster) -> Iterator[str]:
    """A log of five segments, the last of them open, in which all is confirmed."""
    log = cluster.client.create_log("orders", roll_records=ROLL)
    with log.writer() as writer:
        for first in range(0, RECORDS, 100):
            writer.append_batch(
                [
                    NewRecord(payload_of(n), b"k%d" % (n % 7), {"n": b"%d" % n}, event_time=n * 1_000_000)
                    if n % 3
                    else payload_of(n)
                    for n in range(first, first + 100)
                ]
            )
        assert len(list(log.segments())) == 5
        cluster.until_told("orders", RECORDS)
        yield "orders"


def test_every_record_is_there_once_with_all_its_fields(
    cluster: Cluster, spark: SparkSession, orders: str
) -> None:
    frame = frame_of(cluster, spark, log=orders, partition_bytes=20_000)
    assert frame.rdd.getNumPartitions() > 3
    rows = sorted(frame.collect(), key=lambda row: row.position)
    with LedgerClient(cluster.uri) as reader:
        found = list(reader.log(orders).read())
    assert [row.position for row in rows] == [record.position for record in found] == list(range(RECORDS))
    for row, record in zip(rows, found, strict=True):
        assert (row.payload, row.key) == (record.payload, record.key)
        assert row.headers == record.headers
        assert _us(row.time) == record.time and _us(row.event_time) == record.event_time
        assert (row.producer, row.sequence) == (None, None)
    assert frame.where("key = 'k3' and position < 100").count() == sum(
        1 for n in range(100) if n % 3 and n % 7 == 3
    )


def _us(at: datetime | None) -> int | None:
    return (
        None
        if at is None
        else (at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    )


def test_a_range_of_positions_is_cut_exactly(cluster: Cluster, spark: SparkSession, orders: str) -> None:
    def positions(**options: object) -> list[int]:
        frame = frame_of(cluster, spark, log=orders, columns="position", **options)
        return sorted(row.position for row in frame.collect())

    assert positions(startingPosition=690, endingPosition=2101) == list(range(690, 2101))
    assert positions(startingPosition=2990) == list(range(2990, 3000)), "of the segment that is open"
    assert positions(startingPosition="earliest", endingPosition=1) == [0]
    assert positions(startingPosition=5, endingPosition=5) == []


def test_a_range_of_times_is_what_the_log_has_from_one_position_to_another(
    cluster: Cluster, spark: SparkSession, orders: str
) -> None:
    log = cluster.client.log(orders)
    times = {record.position: record.time for record in log.read()}
    for first, last in ((0, 2999), (650, 2200), (701, 1399), (2800, 2999)):
        start, stop = (
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[n]) for n in (first, last)
        )
        frame = frame_of(
            cluster,
            spark,
            log=orders,
            columns="position",
            startingTime=start.isoformat(),
            endingTime=stop.isoformat(),
        )
        expected = list(range(log.position_at(start), log.position_at(stop)))
        assert sorted(row.position for row in frame.collect()) == expected
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert frame_of(cluster, spark, log=orders, startingTime=later).count() == 0


def test_all_logs_of_a_set_are_read_and_named(cluster: Cluster, spark: SparkSession) -> None:
    with cluster.client.log_set("sales", 4).writer() as writer:
        places = [writer.append(b"payload %d" % n, key=b"key %d" % n) for n in range(200)]
        for number, end in {one.log: one.position + 1 for one in places}.items():
            cluster.until_told(f"sales.{number}", end)
        frame = frame_of(cluster, spark, set="sales")
        assert frame.columns[0] == "log"
        rows = frame.collect()
        assert {bytes(row.key): bytes(row.payload) for row in rows} == {
            b"key %d" % n: b"payload %d" % n for n in range(200)
        }
        for log, positions in _by_log(rows).items():
            assert sorted(positions) == list(range(len(positions))), log
        assert set(_by_log(rows)) == {f"sales.{n}" for n in range(4)}


def _by_log(rows: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row.log, []).append(row.position)
    return found


def test_what_a_producer_appended_has_its_name_and_sequence(cluster: Cluster, spark: SparkSession) -> None:
    with cluster.client.log("produced", create=True).writer() as writer:
        writer.append(b"one", producer="till 3 — Ü", sequence=7)
    (row,) = frame_of(cluster, spark, log="produced", columns="producer,sequence,payload").collect()
    assert (row.producer, row.sequence, bytes(row.payload)) == ("till 3 — Ü", 7, b"one")


def test_an_empty_log_has_no_rows(cluster: Cluster, spark: SparkSession) -> None:
    cluster.client.create_log("empty")
    assert frame_of(cluster, spark, log="empty").collect() == []


def test_a_log_under_a_password_with_encrypted_records_is_read_with_both(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(bytes(range(32)).hex())
    key.chmod(0o600)
    secret = str(password_file(tmp_path / "password", b"open sesame"))
    with LedgerClient(cluster.uri, config=ClientConfig(encryption_key=bytes(range(32)))) as client:
        log = client.create_log("secret", password=b"open sesame", roll_records=2)
        with log.writer() as writer:
            for n in range(5):
                writer.append(b"%d" % n)
            frame = frame_of(cluster, spark, log="secret", password_file=secret, key_file=key)
            assert sorted(bytes(row.payload) for row in frame.collect()) == [b"%d" % n for n in range(5)]
    with pytest.raises(PySparkException, match="Unauthorized"):
        frame_of(cluster, spark, log="secret", key_file=key).collect()


def test_what_was_given_up_or_is_not_there_is_refused(cluster: Cluster, spark: SparkSession) -> None:
    with cluster.client.create_log("cut", roll_records=10).writer() as writer:
        for n in range(35):
            writer.append(b"%d" % n)
    log = cluster.client.log("cut")
    log.truncate(25)
    assert sorted(r.position for r in frame_of(cluster, spark, log="cut").collect()) == list(range(25, 35))
    for options, told in (
        ({"startingPosition": 24}, "LogTruncated"),
        ({"endingPosition": 3}, "LogTruncated"),
        ({"startingPosition": 36}, "NoSuchPosition"),
        ({"endingPosition": 36}, "NoSuchPosition"),
    ):
        with pytest.raises(PySparkException, match=told):
            frame_of(cluster, spark, log="cut", **options).collect()
    with pytest.raises(PySparkException, match="NoSuchLog"):
        frame_of(cluster, spark, log="none").collect()
    with pytest.raises(PySparkException, match="NoSuchLogSet"):
        frame_of(cluster, spark, set="none").collect()


def test_a_log_that_is_truncated_after_the_job_was_planned_fails_it(
    cluster: Cluster, spark: SparkSession
) -> None:
    with cluster.client.create_log("late", roll_records=10).writer() as writer:
        for n in range(30):
            writer.append(b"%d" % n)
    log = cluster.client.log("late")
    (first, *_) = log.segments()
    frame = frame_of(cluster, spark, log="late")
    assert frame.count() == 30
    log.truncate(20)
    until(lambda: first.ledger_id not in [one.ledger_id for one in cluster.client.list_ledgers()])
    with pytest.raises(PySparkException, match=rf"ledger {first.ledger_id} was deleted after this job"):
        frame.collect()


def test_without_a_choice_ledgers_are_read_beside_a_log_that_is_written(
    cluster: Cluster, spark: SparkSession, orders: str
) -> None:
    """Its last segment is open."""
    ledger_id = cluster.write([b"%d" % n for n in range(20)])
    assert {row.ledger_id for row in cluster.read(spark).collect()} == {ledger_id}
