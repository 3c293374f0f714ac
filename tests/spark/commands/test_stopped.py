"""Commands on Spark that are told to stop, and a JVM that is killed under one."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from bookledger.cli.spark.output import NewOutput
from ledgers.errors import LedgerError
from tests.spark.commands.commands import ended, started
from tests.spark.conftest import Cluster
from tests.support.waiting import until

SECONDS_MAX = 30
"""Of the few that it takes, on a machine that is busy."""

START_SECONDS_MAX = 150
TASKS = 400


@pytest.fixture(scope="module")
def ledger_id(cluster: Cluster) -> int:
    """Of so many tasks that a replay does not end by itself while a test looks."""
    return cluster.write([b"x" * 1000] * TASKS * 5)


@contextmanager
def replaying(cluster: Cluster, ledger_id: int, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A replay in the middle of its job."""
    replay = started(
        "replay",
        f"--metadata={cluster.uri}",
        f"--ledgers={ledger_id}",
        f"--output={output}",
        "--partition-bytes=5000",
        "--master=local[1]",
        "--conf=spark.driver.memory=1g",
    )
    with replay as process:
        try:
            until(lambda: len(list(output.parent.rglob("*.parquet"))) > 1, START_SECONDS_MAX)
            yield process
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_replay_that_is_told_to_stop_stops_soon_and_leaves_nothing(
    cluster: Cluster, ledger_id: int, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    output = tmp_path / "out"
    with replaying(cluster, ledger_id, output) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        assert {"java"} < {child.name() for child in children}, "and what executes"
        began = time.monotonic()
        process.send_signal(number)
        exit_code, said, lines = ended(process)
        assert time.monotonic() - began < SECONDS_MAX
    assert (exit_code, said) == (code, "")
    at_once, line = [line for line in lines if line]
    assert at_once == "bookledger: stopping Spark and its jobs"
    assert line.startswith(
        f"bookledger: stopped; nothing is left in {output}; begin again with: bookledger replay "
    )
    assert not output.exists()
    until(lambda: not [child for child in children if child.is_running()])


@pytest.mark.long
def test_a_replay_whose_java_process_is_killed_says_so(
    cluster: Cluster, ledger_id: int, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with replaying(cluster, ledger_id, output) as process:
        (java,) = [child for child in psutil.Process(process.pid).children() if child.name() == "java"]
        java.kill()
        code, said, lines = ended(process)
    assert (code, said) == (1, "")
    assert lines[-1] == "bookledger: Spark's Java process ended: it did not say why"
    assert not output.exists()


@pytest.mark.long
def test_what_a_killed_replay_left_is_removed_by_the_next_one(
    cluster: Cluster, ledger_id: int, spark: SparkSession, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with replaying(cluster, ledger_id, output) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        ended(process)
        # Whoever inherits them may not reap them.
        until(lambda: all(one.status() == psutil.STATUS_ZOMBIE for one in children if one.is_running()))
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.partial-")
    new = NewOutput(str(output))
    with new.tidied_up():
        spark.range(10).write.parquet(new.claim(spark))
        assert not left.exists()
        new.complete()
    assert list(tmp_path.iterdir()) == [output]


def test_a_file_that_is_called_like_a_partial_output_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    others = [tmp_path / ".out.partial-of-mine", tmp_path / ".out2.partial-01234567"]
    for one in others:
        one.mkdir()
    new = NewOutput(str(tmp_path / "out"))
    with new.tidied_up():
        new.claim(spark)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_what_was_written_gets_its_name_when_all_of_it_is_there(spark: SparkSession, tmp_path: Path) -> None:
    output = tmp_path / "a b" / "out"
    new = NewOutput(str(output))
    with new.tidied_up():
        spark.range(10).write.parquet(new.claim(spark))
        assert not output.exists()
        new.complete()
    assert spark.read.parquet(str(output)).count() == 10
    assert list(output.parent.iterdir()) == [output]


def test_two_commands_with_one_output_never_touch_each_others_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    one, other, late = (NewOutput(str(output)) for _ in range(3))
    with one.tidied_up():
        spark.range(10).write.parquet(one.claim(spark))
        with (
            pytest.raises(LedgerError, match="was created by another process in the meantime"),
            other.tidied_up(),
        ):
            spark.range(20).write.parquet(other.claim(spark))
            one.complete()
            other.complete()
    with pytest.raises(LedgerError, match="already exists"), late.tidied_up():
        late.claim(spark)
    assert spark.read.parquet(str(output)).count() == 10
    assert list(tmp_path.iterdir()) == [output]


def test_a_job_that_is_interrupted_leaves_nothing_and_says_so(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = NewOutput(str(tmp_path / "out"))
    with pytest.raises(KeyboardInterrupt), new.tidied_up():
        spark.range(10).write.parquet(new.claim(spark))
        raise KeyboardInterrupt
    assert f"stopped; nothing is left in {tmp_path}/out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
