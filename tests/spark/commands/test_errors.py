"""What is left of Spark's failures: one line that says what was wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from bookledger.cli.spark.errors import in_one_line
from ledgers.errors import LedgerError, NoSuchLedger
from tests.support.long_runs import first_then_long


def _without_a_message() -> None:
    raise TimeoutError


def _ours_without_a_message() -> None:
    raise LedgerError


def _several_lines() -> None:
    raise LedgerError("first\nsecond: of two\n\nthird")


def _tidying_up_fails() -> None:
    try:
        raise LedgerError("entry 5 is damaged")
    finally:
        _ours_while_closing()


def _ours_while_closing() -> None:
    raise LedgerError("closed twice")


def _said_better() -> None:
    try:
        raise NoSuchLedger(7)
    except NoSuchLedger as gone:
        raise LedgerError("ledger 7 was deleted") from gone


def _wrapped_in_another() -> None:
    try:
        raise LedgerError("the reason")
    except LedgerError as reason:
        raise RuntimeError("something went wrong") from reason


def _one_of_a_group() -> None:
    raise ExceptionGroup("unhandled errors in a TaskGroup", [LedgerError("one of them")])


def _not_ours() -> None:
    try:
        int("x")
    except ValueError:
        raise RuntimeError("there is no x") from None


@pytest.mark.parametrize(
    ("fails", "said"),
    first_then_long(
        [
            (_without_a_message, rf"^TimeoutError in {re.escape(__file__)}, line \d+$"),
            (_ours_without_a_message, "^LedgerError$"),
            (_several_lines, "^LedgerError: first; second: of two; third$"),
            (_tidying_up_fails, "^LedgerError: entry 5 is damaged$"),
            (_said_better, "^LedgerError: ledger 7 was deleted$"),
            (_wrapped_in_another, "^LedgerError: the reason$"),
            (_one_of_a_group, "^LedgerError: one of them$"),
            (_not_ours, "^RuntimeError: there is no x$"),
        ],
        2,
        in_rows=True,
    ),
)
def test_of_what_a_task_raises_the_error_that_matters_is_told_in_full(
    spark: SparkSession, fails: Callable[[], None], said: str
) -> None:
    with pytest.raises(Exception) as failed:
        spark.sparkContext.parallelize([0], 1).foreach(lambda _: fails())
    assert re.search(said, str(in_one_line(failed.value)))


def test_of_a_stream_that_failed_its_reason_is_told(spark: SparkSession) -> None:
    values = spark.readStream.format("rate").load()
    failing = values.selectExpr("assert_true(value < 0, 'not below zero')")
    query = failing.writeStream.format("noop").start()
    with pytest.raises(Exception) as failed:
        query.awaitTermination(60)
    line = str(in_one_line(failed.value))
    assert line.startswith("[STREAM_FAILED]") and "not below zero" in line


JAVA = """An error occurred while calling o64.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)
Caused by: {}
\tat org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileOutputStream.write(RawLocalFileSystem.java:545)
\t... 31 more
Caused by: java.io.EOFException
\t... 44 more
"""


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            "java.io.IOException: No space left on device",
            "IOException: No space left on device; free space there",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2',
            'IOException: Cannot run program "/opt/python": error=2; set PYSPARK_PYTHON',
        ),
        (
            "org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme x",
            "UnsupportedFileSystemException: No FileSystem for scheme x; give Spark that file system's jar",
        ),
    ],
)
def test_of_what_java_says_the_cause_is_told_with_what_to_do(cause: str, said: str) -> None:
    assert str(in_one_line(JAVA.format(cause))).startswith(said)


def test_of_a_streams_failure_only_the_error_is_left() -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback (most recent call last):\n"
        '  File "stream.py", line 1, in latestOffset\n'
        "ledgers.errors.NoSuchLedger: there is no ledger 7\n"
        " SQLSTATE: 38000 SQLSTATE: XXKST\n"
        "=== Streaming Query ===\n"
        "Identifier: [id = 1, runId = 2]\n"
    )
    assert str(in_one_line(said)) == "NoSuchLedger: there is no ledger 7"
