"""Bookies die, disks go bad, tasks are killed: every entry once, or a clear error, never fewer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bookledger.cli.processes import BookieProcess
from bookledger.cli.spark.errors import in_one_line
from tests.spark.conftest import Cluster, Job
from tests.support.processes import hung
from tests.support.waiting import until

ENTRIES = 4000
TASKS_AT_LEAST = 40


def payload_of(entry_id: int) -> bytes:
    return b"%08d" % entry_id + b"." * 992


@pytest.fixture(scope="module")
def ledger_id(cluster: Cluster) -> int:
    return cluster.write([payload_of(n) for n in range(ENTRIES)])


@pytest.fixture(autouse=True)
def all_bookies_live(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.restart_all()
    until(lambda: len(cluster.client.list_bookies()) == 3)


def in_many_tasks(cluster: Cluster, spark: SparkSession, ledger_id: int) -> DataFrame:
    return cluster.read(spark, ledgers=ledger_id, partition_bytes=ENTRIES * 1016 // TASKS_AT_LEAST)


def check_all_there(job: Job) -> None:
    rows = sorted((row.entry_id, bytes(row.payload)) for row in job.rows())
    assert rows == [(n, payload_of(n)) for n in range(ENTRIES)]


def test_a_bookie_that_dies_in_the_middle_of_a_job_costs_no_entry(
    cluster: Cluster, spark: SparkSession, ledger_id: int
) -> None:
    job = Job(spark, in_many_tasks(cluster, spark, ledger_id))
    until(lambda: job.tasks("numCompletedTasks") > 1)
    cluster.bookies[0].kill()
    assert job.is_running
    check_all_there(job)
    assert job.tasks("numTasks") >= TASKS_AT_LEAST
    assert job.tasks("numFailedTasks") == 0


def test_entries_whose_replicas_are_all_dead_fail_the_job_and_say_why(
    cluster: Cluster, spark: SparkSession, ledger_id: int
) -> None:
    ensemble = [
        bookie.bookie_id for bookie in cluster.client.describe_ledger(ledger_id).fragments[0].ensemble
    ]
    for bookie in cluster.bookies:
        if bookie.bookie_id in ensemble[:2]:  # the write set of entries 0, 3, 6 …
            bookie.kill()
    with pytest.raises(PySparkException) as failed:
        cluster.read(spark, ledgers=f"{ledger_id}:0-2").collect()
    line = str(in_one_line(failed.value))
    assert f"entry 0 of ledger {ledger_id}" in line
    assert all(name in line for name in ensemble[:2])
    assert "\n" not in line


def test_a_task_that_is_killed_is_tried_again_and_counted_once(
    cluster: Cluster, spark: SparkSession, ledger_id: int
) -> None:
    job = Job(spark, in_many_tasks(cluster, spark, ledger_id))
    until(lambda: job.tasks("numCompletedTasks") > 1)
    killed = python_workers()
    for worker in killed:
        worker.kill()
    check_all_there(job)
    assert killed
    assert job.tasks("numFailedTasks") >= 1


def python_workers() -> list[psutil.Process]:
    """Processes that run tasks: the children of Spark's own daemon of them."""
    return [p for p in psutil.Process().children(recursive=True) if is_daemon(p.parent())]


def is_daemon(process: psutil.Process | None) -> bool:
    try:
        return process is not None and "pyspark.daemon" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_a_damaged_copy_is_read_from_another_bookie_and_without_one_the_job_fails(
    cluster: Cluster, spark: SparkSession
) -> None:
    ledger_id = cluster.write([b"%04d is precious" % n for n in range(2000)], write_quorum=3)
    frame = cluster.read(spark, ledgers=ledger_id)
    first, second, third = cluster.bookies
    for bookie in (first, second):
        damage(bookie, b"0999 is precious")
    rows = sorted((row.entry_id, bytes(row.payload)) for row in frame.collect())
    assert rows == [(n, b"%04d is precious" % n) for n in range(2000)]
    damage(third, b"0999 is precious")
    with pytest.raises(PySparkException) as failed:
        frame.collect()
    line = str(in_one_line(failed.value))
    assert f"of ledger {ledger_id}" in line and "damaged" in line
    assert all(bookie.bookie_id in line for bookie in cluster.bookies)


def damage(bookie: BookieProcess, content: bytes) -> None:
    """Changes a byte of it in the bookie's log."""
    for path in (bookie.directory / "log").iterdir():
        place = path.read_bytes().find(content)
        if place >= 0:
            flip(path, place)
            return
    raise AssertionError(f"{bookie.bookie_id} has no {content!r}")


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(1)
        file.seek(place)
        file.write(bytes([before[0] ^ 1]))


def test_a_slow_bookie_does_not_hold_a_job_up(cluster: Cluster, spark: SparkSession, ledger_id: int) -> None:
    with hung([cluster.bookies[1]]):
        check_all_there(Job(spark, cluster.read(spark, ledgers=ledger_id)))


def test_a_ledger_deleted_between_planning_and_reading_is_a_clear_error(
    cluster: Cluster, spark: SparkSession
) -> None:
    doomed = cluster.write([b"x"] * 10)
    frame = cluster.read(spark, ledgers=doomed)
    assert frame.count() == 10  # planned, once and for all
    cluster.client.delete_ledger(doomed)
    with pytest.raises(PySparkException, match=f"ledger {doomed} was deleted after this job was planned"):
        frame.count()
    with pytest.raises(PySparkException, match=f"there is no ledger {doomed}"):
        cluster.read(spark, ledgers=doomed).count()
