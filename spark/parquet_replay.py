"""Replays ledgers or edits to Parquet, for `bookledger replay`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

POLL_SECONDS = 0.5

Progress = Callable[[int, int], None]
"""Called with the numbers of completed and total tasks while the job runs, in a separate thread."""


@contextmanager
def task_progress(session: SparkSession, progress: Progress) -> Iterator[None]:
    """Reports task progress to `progress` while the block runs."""
    ended = Event()
    reporter = Thread(target=_report, args=(session, progress, ended), name="task progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _report(session: SparkSession, progress: Progress, ended: Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not ended.wait(POLL_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return  # the JVM has ended; the job itself reports that
        known = [stage for stage in stages if stage is not None]
        progress(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    rows: int
    payload_bytes: int
    seconds: float


def frame_of(session: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    """Returns the DataFrame that the options select."""
    return session.read.format(source).options(**options).load()


def replay(
    session: SparkSession, source: str, options: Mapping[str, str], output: str, progress: Progress
) -> ReplayResult:
    """Writes the selected rows to Parquet files in `output`, which must not exist.

    Raises Spark's error, which contains the ledger, the entry and each replica's answer; in that case the output is not
    marked complete (it has no _SUCCESS file). To abort the replay, call `session.sparkContext.cancelAllJobs()` in
    another thread.
    """
    seen = Observation("replayed")
    frame = frame_of(session, source, options)
    frame = frame.observe(seen, f.count(f.lit(1)).alias("rows"), f.sum(_sizes(frame)).alias("bytes"))
    began = time.monotonic()
    with task_progress(session, progress):
        frame.write.parquet(output)
    found = seen.get
    return ReplayResult(int(found["rows"]), int(found["bytes"] or 0), time.monotonic() - began)


def _sizes(frame: DataFrame) -> Column:
    """Returns a column with each row's payload size in bytes, or 0 if the selected columns do not show it."""
    if "bytes" in frame.columns:
        return f.col("bytes")
    of_payload = [name for name in ("payload", "body") if name in frame.columns]
    return f.length(of_payload[0]) if of_payload else f.lit(0)
