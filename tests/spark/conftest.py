"""One Spark session for all tests of this folder, and bookies that each module has for itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient, WriteHandle
from spark.session import session_on
from tests.support.waiting import until

SESSION = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def event_log(directory: str) -> dict[str, str]:
    """Spark's history of a session as one file of plain text there."""
    plain = {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": directory} | plain


def events_in(directory: Path) -> bytes:
    """What that file holds."""
    (events,) = [path for path in directory.iterdir() if not path.name.startswith(".")]
    return events.read_bytes()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two tasks at a time, each tried up to four times."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17: install a JDK, or set JAVA_HOME")
    scratch = tmp_path_factory.mktemp("spark")
    places = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    session = session_on("local[2,4]", "tests of bookledger", config=SESSION | places)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def same_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session that is there, and leave it running."""
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)


@dataclass
class Cluster:
    """Three bookies in processes, and a client to write with."""

    uri: str
    bookies: list[BookieProcess]
    client: LedgerClient

    def write(self, payloads: Sequence[bytes], *, write_quorum: int = 2, **new: Any) -> int:
        """A closed ledger with these entries."""
        with self.writer(write_quorum=write_quorum, **new) as writer:
            fill(writer, payloads)
        return writer.ledger_id

    def writer(self, *, write_quorum: int = 2, **new: Any) -> WriteHandle:
        return self.client.create_ledger(
            ensemble_size=3, write_quorum=write_quorum, ack_quorum=write_quorum, **new
        )

    def read(self, spark: SparkSession, **options: object) -> DataFrame:
        given = {name: str(value) for name, value in options.items()}
        return spark.read.format("ledger").option("metadata", self.uri).options(**given).load()

    def until_told(self, log: str, end: int) -> None:
        """Waits until bookies know that all before the end is confirmed, though its writer goes on (rule L4)."""
        with LedgerClient(self.uri) as other:
            until(lambda: other.log(log).end() == end)

    def restart_all(self) -> None:
        """Starts those that were killed."""
        for bookie in self.bookies:
            if not bookie.child.is_alive:
                bookie.start()


class Job:
    """A job of Spark's that runs beside the test. Made before it starts: it counts tasks from there."""

    def __init__(self, spark: SparkSession, frame: DataFrame) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._group = f"job-{next(_numbers)}"
        self._pool = ThreadPoolExecutor(1)
        self._rows = self._pool.submit(self._run, spark, frame)
        self._pool.shutdown(wait=False)

    def _run(self, spark: SparkSession, frame: DataFrame) -> list[Row]:
        spark.sparkContext.setJobGroup(self._group, "a job that is disturbed")
        return frame.collect()

    def rows(self) -> list[Row]:
        """Waits. Raises what Spark raises."""
        return self._rows.result(timeout=120)

    @property
    def is_running(self) -> bool:
        return not self._rows.done()

    def tasks(self, name: str) -> int:
        """numCompletedTasks, numFailedTasks, numTasks over its stages."""
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._group)]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(getattr(stage, name) for stage in stages if stage)


_numbers = count()


def fill(writer: WriteHandle, payloads: Sequence[bytes]) -> None:
    pending: list[Future[int]] = [writer.append_async(payload) for payload in payloads]
    for one in pending:
        one.result()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("bookies")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri) as bookies, LedgerClient(uri) as client:
        yield Cluster(uri, bookies, client)
