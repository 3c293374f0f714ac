"""`python -m tests.measure WHAT`, one of those below: a line for each figure."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from . import (
    bookkeeper,
    cold,
    cold_week,
    compaction,
    edits,
    examples,
    growth,
    hadoop,
    hadoop_wire,
    healing,
    journals,
    leading,
    ledgers_made,
    log_take_overs,
    logs,
    many,
    metadata,
    metrics_cost,
    reading,
    restart,
    rolling,
    scale,
    scale_of_bookies,
    scale_of_logs,
    spark,
    spark_logs,
    walk,
)

WHAT = {
    "reading": reading.measure,
    "restart": restart.measure,
    "rolling": rolling.measure,
    "many": many.measure,
    "metadata": metadata.measure,
    "metrics": metrics_cost.measure,
    "bookkeeper": bookkeeper.measure,
    "cold": cold.measure,
    "cold-week": cold_week.measure,
    "compaction": compaction.measure,
    "healing": healing.measure,
    "edits": edits.measure,
    "examples": examples.measure,
    "growth": growth.measure,
    "hadoop-wire": hadoop_wire.measure,
    "journals": journals.measure,
    "leading": leading.measure,
    "ledgers-made": ledgers_made.measure,
    "logs": logs.measure,
    "log-take-overs": log_take_overs.measure,
    "hadoop": hadoop.measure,
    "scale": scale.measure,
    "scale-of-bookies": scale_of_bookies.measure,
    "scale-of-logs": scale_of_logs.measure,
    "scale-picture": scale.picture,
    "spark": spark.measure,
    "spark-counts": spark.measure_counts,
    "spark-logs": spark_logs.measure,
    "walk": walk.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.measure")
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--share", type=float, default=1.0, help="of the full size, for a quick look")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(WHAT[arguments.what](Path(scratch), arguments.share))


if __name__ == "__main__":
    main()
