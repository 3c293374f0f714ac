"""`format("ledger")` on a real Spark over real bookies: what it gives, and what it refuses."""

from __future__ import annotations

import asyncio
import os

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import ClientConfig, DigestType, LedgerClient
from ledgers.aio import LedgerClient as AsyncLedgerClient
from metadata.records.ledger_record import LedgerRecord
from spark.planning.ranges import ENTRY_OVERHEAD_BYTES
from tests.spark.conftest import Cluster, fill
from tests.support.aio import run
from tests.support.secrets import password_file

MANY = int(os.environ.get("BOOKLEDGER_MANY_LEDGERS", "500"))
"""Small ledgers of one job; `make measure WHAT=spark` reads 10,000."""

PAYLOADS = [b"%d" % n * (n % 50) for n in range(3000)]


@pytest.fixture(scope="module")
def ledger_id(cluster: Cluster) -> int:
    return cluster.write(PAYLOADS, custom_metadata={"Owner": b"ada"})


def test_every_entry_is_there_once_with_its_payload(
    cluster: Cluster, spark: SparkSession, ledger_id: int
) -> None:
    frame = cluster.read(spark, ledgers=ledger_id, partition_bytes=20_000)
    assert frame.rdd.getNumPartitions() > 3
    rows = sorted((row.ledger_id, row.entry_id, bytes(row.payload)) for row in frame.collect())
    assert rows == [(ledger_id, n, payload) for n, payload in enumerate(PAYLOADS)]
    assert frame.where("entry_id < 10").count() == 10
    assert frame.count() == len(PAYLOADS), "an earlier filter stays with the query it was in"


def test_all_columns_are_there_when_asked_for(cluster: Cluster, spark: SparkSession, ledger_id: int) -> None:
    columns = "entry_id,bytes,fragment,bookies,last_add_confirmed"
    frame = cluster.read(spark, ledgers=f"{ledger_id}:10-12", columns=columns)
    assert frame.columns == columns.split(",")
    record = cluster.client.describe_ledger(ledger_id)
    assert frame.orderBy("entry_id").collect() == [
        Row(
            entry_id=n,
            bytes=len(PAYLOADS[n]),
            fragment=0,
            bookies=write_set(record, n),
            last_add_confirmed=2999,
        )
        for n in (10, 11, 12)
    ]


def write_set(record: LedgerRecord, entry_id: int) -> list[str]:
    ensemble = record.fragments[0].ensemble
    return [ensemble[(entry_id + k) % 3].bookie_id for k in range(2)]


def test_a_schema_chooses_the_columns_too(cluster: Cluster, spark: SparkSession, ledger_id: int) -> None:
    reader = spark.read.format("ledger").schema("bytes bigint").option("metadata", cluster.uri)
    assert reader.option("ledgers", ledger_id).load().agg(f.sum("bytes")).collect() == [
        (sum(map(len, PAYLOADS)),)
    ]


def test_ledgers_are_chosen_by_their_custom_metadata(
    cluster: Cluster, spark: SparkSession, ledger_id: int
) -> None:
    cluster.write([b"x"], custom_metadata={"Owner": b"grace"})
    found = cluster.read(spark, **{"custom.Owner": "ada"}).select("ledger_id").distinct().collect()
    assert found == [(ledger_id,)]


def test_what_holds_no_entries_is_an_empty_table(cluster: Cluster, spark: SparkSession) -> None:
    empty = cluster.write([])
    assert cluster.read(spark, ledgers=empty).count() == 0
    assert cluster.read(spark, **{"custom.owner": "nobody"}).collect() == []


def test_an_entry_of_the_largest_size_comes_through(cluster: Cluster, spark: SparkSession) -> None:
    largest = cluster.write([os.urandom(ENTRY_BYTES_MAX), b"small", bytes(ENTRY_BYTES_MAX)])
    frame = cluster.read(spark, ledgers=largest)
    assert frame.select(f.length("payload")).orderBy("entry_id").collect() == [
        (ENTRY_BYTES_MAX,),
        (5,),
        (ENTRY_BYTES_MAX,),
    ]


def test_an_open_ledger_is_refused_by_name_and_recovered_when_asked(
    cluster: Cluster, spark: SparkSession
) -> None:
    writer = cluster.writer()
    fill(writer, [b"a", b"b"])
    with pytest.raises(PySparkException, match=f"ledger {writer.ledger_id} is open.*recover=true"):
        cluster.read(spark, ledgers=writer.ledger_id).count()
    assert cluster.read(spark, ledgers=writer.ledger_id, recover="true").count() == 2
    assert cluster.client.describe_ledger(writer.ledger_id).is_closed


def test_ledgers_with_a_password_need_it(
    cluster: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = password_file(tmp_path_factory.mktemp("secret") / "password", "open sesame\n")
    guarded = cluster.write([b"x", b"y"], password=b"open sesame", digest=DigestType.HMAC_SHA256)
    assert cluster.read(spark, ledgers=guarded, password_file=secret).count() == 2
    with pytest.raises(PySparkException, match="Unauthorized"):
        cluster.read(spark, ledgers=guarded).count()


@pytest.mark.long
def test_very_many_small_ledgers_are_one_job(cluster: Cluster, spark: SparkSession) -> None:
    run(_write_many(cluster.uri, MANY), timeout_seconds=250)
    frame = cluster.read(spark, **{"custom.kind": "many"})
    assert frame.rdd.getNumPartitions() <= 10
    assert frame.agg(f.count("*"), f.countDistinct("ledger_id"), f.sum(f.length("payload"))).collect() == [
        (3 * MANY, MANY, 6 * MANY)
    ]


async def _write_many(uri: str, ledgers: int) -> None:
    async with AsyncLedgerClient(uri) as client:

        async def write_some(some: int) -> None:
            for _ in range(some):
                writer = await client.create_ledger(custom_metadata={"kind": b"many"})
                for payload in (b"a", b"bb", b"ccc"):
                    await writer.append(payload)
                await writer.close()

        await asyncio.gather(*(write_some(ledgers // 25) for _ in range(25)))


@pytest.mark.long
def test_tasks_share_the_bytes_of_a_ledger_whose_entries_are_of_very_different_sizes(
    cluster: Cluster, spark: SparkSession
) -> None:
    small, large = 200_000, 100
    ledger_id = cluster.write([b"ab"] * small + [b"x" * 300_000] * large + [b"cd"] * small)
    frame = cluster.read(spark, ledgers=ledger_id, partition_bytes=4 << 20)
    tasks = frame.selectExpr("spark_partition_id() task", "length(payload) size").groupBy("task")
    costs = [
        row.bytes + ENTRY_OVERHEAD_BYTES * row.entries
        for row in tasks.agg({"size": "sum", "*": "count"}).toDF("task", "bytes", "entries").collect()
    ]
    assert len(costs) >= 8
    assert max(costs) <= 2 * min(costs)


def test_a_mistyped_option_is_refused_before_anything_runs(cluster: Cluster, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="'ledger' is not known"):
        cluster.read(spark, ledger=7)


def test_a_frame_keeps_to_the_ledgers_it_began_with(cluster: Cluster, spark: SparkSession) -> None:
    """Spark plans the reading of a frame once: counting again counts the same."""
    cluster.write([b"1"], custom_metadata={"kind": b"growing"})
    frame = cluster.read(spark, **{"custom.kind": "growing"})
    assert frame.count() == 1
    cluster.write([b"2"], custom_metadata={"kind": b"growing"})
    assert frame.count() == 1
    assert cluster.read(spark, **{"custom.kind": "growing"}).count() == 2


def test_an_encrypted_ledger_is_read_with_its_key(
    cluster: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = bytes(range(32))
    config = ClientConfig(encryption_key=key)
    with LedgerClient(cluster.uri, config=config) as client, client.create_ledger() as writer:
        for n in range(50):
            writer.append_async(b"secret %d" % n)
    file = password_file(tmp_path_factory.mktemp("secret") / "key", key.hex())
    rows = cluster.read(spark, ledgers=writer.ledger_id, key_file=file).collect()
    assert [bytes(row.payload) for row in rows] == [b"secret %d" % n for n in range(50)]
    with pytest.raises(PySparkException, match="no key was given"):
        cluster.read(spark, ledgers=writer.ledger_id).collect()
