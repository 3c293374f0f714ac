"""Reports the progress of the tasks of a session's jobs while the jobs run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

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
