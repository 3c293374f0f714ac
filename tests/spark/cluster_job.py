"""A job on executors in processes of their own, which get our packages shipped; run by `test_shipping`.

cluster_job.py MASTER METADATA_URI LEDGER PARTITION_BYTES EVENT_LOG_DIRECTORY
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

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


def main(master: str, uri: str, ledger: str, partition_bytes: str, events: str) -> None:
    config = SESSION | SPECULATION | event_log(events)
    session = session_on(master, "a cluster", config=config, extra_packages=("tests",))
    try:
        reader = session.read.format("ledger").option("metadata", uri).option("ledgers", ledger)
        frame = reader.option("partition_bytes", partition_bytes).load()
        places = session.sparkContext.parallelize([0]).map(where_we_are).collect()
        print(json.dumps({"rows": with_a_straggler(frame), "places": places}), flush=True)
    finally:
        session.stop()


def where_we_are(_: int) -> str:
    import spark

    return str(spark.__file__)


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
