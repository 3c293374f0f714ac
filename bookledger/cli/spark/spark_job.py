"""Runs a command's job on Spark: starts it, stops it on a signal, and reports failures in one line."""

from __future__ import annotations

import logging
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

import click

from ledgers.errors import LedgerError

from ..terminal import say
from .errors import in_one_line
from .prerequisites import check_spark_can_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

LINES_KEPT_MAX = 200
LINE_BYTES_MAX = 4096
END_SECONDS_MAX = 2.0


class LastLines:
    """The last lines from a pipe, read until all its writers are gone."""

    def __init__(self, readable: int) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self._reader = Thread(target=self._read, args=(readable,), name="last lines", daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def wait_for_end(self) -> None:
        """Waits until the writers have ended, or for END_SECONDS_MAX."""
        self._reader.join(END_SECONDS_MAX)

    def _read(self, readable: int) -> None:
        with os.fdopen(readable, "rb") as pipe:
            while line := pipe.readline(LINE_BYTES_MAX):
                self._lines.append(line.decode(errors="replace").rstrip())


@contextmanager
def children_quiet() -> Iterator[LastLines]:
    """Redirects the stderr of processes started inside the block to the yielded LastLines, for as long as these
    processes run."""
    readable, writable = os.pipe()
    lines = LastLines(readable)
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(writable, 2)
    os.close(writable)
    try:
        yield lines
    finally:
        os.dup2(kept, 2)
        os.close(kept)


T = TypeVar("T")

STOP_SECONDS_MAX = 15.0
"""How long a stopped command waits for its jobs to end."""

CANCEL_AGAIN_SECONDS = 0.5

JAVA_ENDS_SECONDS_MAX = 5.0
"""How long Java may take to exit; it removes its own files in this time."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Where and how the job runs."""

    master: str
    app_name: str
    config: Mapping[str, str]
    extra_packages: tuple[str, ...] = ()


def run_on_spark(where: OnSpark, work: Callable[[SparkSession], T]) -> T:
    """Runs `work` in another thread with a session, which is stopped at the end; returns its result.

    Raises LedgerError with a one-line message for errors from Spark or from a task. An interrupt, or a signal that ends
    this process, is reported at once; it ends a local Spark, or cancels the jobs on a remote one, and propagates once
    that is done, or after STOP_SECONDS_MAX.
    """
    check_spark_can_start()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    running = _Running(where, work)
    stop = running.stop
    try:
        return running.result()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise running.explained(error) from error
    except (KeyboardInterrupt, SystemExit):
        say("bookledger: stopping Spark and its jobs", err=True)
        stop = running.stop_soon
        raise
    finally:
        stop()


class _Running(Generic[T]):
    """Runs all communication with Spark in a separate thread.

    Signals are delivered to the main thread. If that thread communicated with Spark, a signal would interrupt an
    exchange with the JVM, and the next request would get the reply to the previous one.
    """

    def __init__(self, where: OnSpark, work: Callable[[SparkSession], T]) -> None:
        self._where, self._work, self._verbosity = where, work, _verbosity()
        self._session: Future[SparkSession] = Future()
        self._done: Future[T] = Future()
        self._jvm_said: LastLines | None = None
        Thread(target=self._run, name="on Spark", daemon=True).start()

    def result(self) -> T:
        return self._done.result()

    def explained(self, error: Exception) -> LedgerError:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if isinstance(error, Py4JJavaError | PySparkException) and "JAVA_GATEWAY_EXITED" not in str(error):
            return in_one_line(error)
        return LedgerError(f"Spark's Java process ended: {self._last_words() or 'it did not say why'}")

    def stop(self) -> None:
        """Cancels running jobs, and stops the session."""
        from py4j.protocol import Py4JError

        try:
            self._cancel()
            if self._session.done() and self._session.exception() is None:
                with warnings.catch_warnings(action="ignore"):  # warnings about a JVM that is gone
                    self._session.result().stop()
        except (Py4JError, OSError) as gone:
            logging.getLogger(__name__).info("Spark's JVM is gone, and its jobs with it: %s", gone)

    def stop_soon(self) -> None:
        """Terminates the Java process of a local session, which takes a second; cancelling jobs would take ten."""
        from spark.session import is_local

        if not is_local(self._where.master):
            self.stop()
            return
        wait([self._session], STOP_SECONDS_MAX)
        if self._session.done() and self._session.exception() is None:
            context = self._session.result().sparkContext
            context._accumulatorServer.shutdown()  # otherwise this server would print an error
            logging.disable()  # threads that still talk to Java would log errors; nothing else is logged after this
            _end(context._gateway.proc)  # type: ignore[union-attr]
            wait([self._done], STOP_SECONDS_MAX)

    def _cancel(self) -> None:
        given_up_at = time.monotonic() + STOP_SECONDS_MAX
        wait([self._session], STOP_SECONDS_MAX)
        while not self._done.done() and self._session.done() and time.monotonic() < given_up_at:
            self._session.result().sparkContext.cancelAllJobs()  # repeated, because planned jobs start later
            wait([self._done], CANCEL_AGAIN_SECONDS)

    def _run(self) -> None:
        try:
            self._session.set_result(self._start())
        except BaseException as error:
            self._session.set_exception(error)
            self._done.set_exception(error)
            return
        try:
            self._done.set_result(self._work(self._session.result()))
        except BaseException as error:
            self._done.set_exception(error)

    def _start(self) -> SparkSession:
        from spark.session import is_local, session_on

        where = self._where
        config = (_WITHOUT_PAGES if is_local(where.master) else {}) | dict(where.config)
        with nullcontext() if self._verbosity else children_quiet() as self._jvm_said:
            session = session_on(
                where.master, where.app_name, config=config, extra_packages=where.extra_packages
            )
        session.sparkContext.setLogLevel(_LOG_LEVELS[min(self._verbosity, len(_LOG_LEVELS) - 1)])
        return session

    def _last_words(self) -> str:
        if self._jvm_said is None:
            return "its last lines are above"
        self._jvm_said.wait_for_end()
        return str(in_one_line(self._jvm_said.text))


def _end(java: subprocess.Popen[bytes]) -> None:
    java.terminate()
    try:
        java.wait(JAVA_ENDS_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        java.kill()


_WITHOUT_PAGES = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
"""Disables Spark's web UI and progress bar, which are not needed on one machine."""

_LOG_LEVELS = ("OFF", "WARN", "INFO")
"""Spark's log level, by the number of times -v was given."""


def _verbosity() -> int:
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.find_root().params.get("verbose", 0))
