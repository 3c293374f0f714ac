"""A job on executors in processes of their own, which get our packages shipped; run by `test_package_shipping`.

cluster_job.py MASTER METADATA_URI LEDGER PARTITION_BYTES EVENT_LOG_DIRECTORY
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import psutil
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from spark.session import session_on
from tests.spark.conftest import SESSION, event_log

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.executor.memory": "512m",
}
STRAGGLING_SECONDS = 120
NEW_EXECUTOR_SECONDS_MAX = 60


def main(master: str, uri: str, ledger: str, partition_bytes: str, events: str) -> None:
    config = SESSION | SPECULATION | event_log(events)
    session = session_on(master, "a cluster", config=config, extra_packages=("tests",))
    try:
        reader = session.read.format("ledger").option("metadata", uri).option("ledgers", ledger)
        frame = reader.option("partition_bytes", partition_bytes).load()
        rows = with_a_straggler(frame)
        first = executors(session, unlike=set())
        for process in first:
            psutil.Process(process).kill()
        later = executors(session, unlike=set(first))
        places = [*first.values(), *later.values()]
        print(json.dumps({"rows": rows, "places": places, "driver_path": sys.path}), flush=True)
    finally:
        session.stop()


def executors(session: SparkSession, unlike: set[int]) -> dict[int, str]:
    """Processes of executors, and where each imports us from, once one of them is none of those."""
    given_up_at = time.monotonic() + NEW_EXECUTOR_SECONDS_MAX
    while True:
        found = dict(session.sparkContext.parallelize(range(4), 4).map(where_we_are).collect())
        if set(found) - unlike:
            return found
        assert time.monotonic() < given_up_at, "no new executor came"


def where_we_are(_: int) -> tuple[int, str]:
    import spark

    java = next(parent for parent in psutil.Process().parents() if parent.name() == "java")
    return java.pid, str(spark.__file__)


def with_a_straggler(frame: DataFrame) -> list[int]:
    """The entry ids that came; the first attempt at the first task hangs until it is given up."""
    return sorted(frame.rdd.mapPartitions(ids_of).collect())


def ids_of(rows: Iterable[Row]) -> Iterable[int]:
    ids = [row.entry_id for row in rows]
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 0 and context.attemptNumber() == 0:
        time.sleep(STRAGGLING_SECONDS)
    return ids


if __name__ == "__main__":
    main(*sys.argv[1:])
