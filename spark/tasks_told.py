"""How many tasks of a session's jobs are done, told while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

TELL_SECONDS = 0.5

Progress = Callable[[int, int], None]
"""Told of tasks done and tasks in all, while the job runs; from a thread of its own."""


@contextmanager
def tasks_told(session: SparkSession, progress: Progress) -> Iterator[None]:
    """Tells `progress` for as long as the context lasts."""
    ended = Event()
    teller = Thread(target=_tell, args=(session, progress, ended), name="tasks told", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell(session: SparkSession, progress: Progress, ended: Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not ended.wait(TELL_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return  # the JVM is gone: the job itself tells of that
        known = [stage for stage in stages if stage is not None]
        progress(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))
