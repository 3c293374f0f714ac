"""Executors that are processes of their own: our packages reach them, and two attempts at a task count once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark.session import PACKAGES, SHIPPED_NAME, packages_file
from tests.spark.commands.commands import ended, started
from tests.spark.commands.layers import BROKEN
from tests.spark.conftest import Cluster, events_in
from tests.spark.standalone import spark_cluster
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark_cluster(tmp_path_factory.mktemp("standalone")) as url:
        yield url


def test_the_packages_are_one_file_that_can_be_imported_from(tmp_path: Path) -> None:
    shipped = packages_file(PACKAGES, tmp_path)
    names = zipfile.ZipFile(shipped).namelist()
    assert {"spark/source.py", "bookie/wire/bookie_pb2.py", "metadata/__init__.py"} <= set(names)
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]
    modules = "spark.executors.range_reader, spark.stream.metadata_stream, spark.edits.source"
    code = f"import {modules}; print(spark.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(shipped)!r}); {code}"],
        cwd=tmp_path.parent,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().startswith(str(shipped))


@pytest.mark.long
def test_executors_use_what_was_shipped_and_speculation_counts_nothing_twice(
    cluster: Cluster, master: str, tmp_path: Path
) -> None:
    ledger_id = cluster.write([b"." * 100] * 1000)
    (tmp_path / "events").mkdir()
    said = run_job(master, cluster.uri, str(ledger_id), "20000", str(tmp_path / "events"))
    assert said["rows"] == list(range(1000))
    assert all(SHIPPED_NAME in place for place in said["places"])
    assert not [entry for entry in said["driver_path"] if SHIPPED_NAME in entry]
    assert b'"Speculative":true' in events_in(tmp_path / "events")


@pytest.mark.long
def test_a_replay_that_fails_on_a_cluster_ends_in_one_line_whatever_python_is_on_path(
    cluster: Cluster, master: str, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with cluster.writer() as writer:
        writer.append(b"still open")
        process = started(
            "replay",
            f"--metadata={cluster.uri}",
            f"--ledgers={writer.ledger_id}",
            f"--output={tmp_path}/out",
            *on(master),
            environment={"PYSPARK_PYTHON": None, "PATH": f"{python.parent}:{os.environ['PATH']}"},
        )
        code, _, lines = ended(process)
    assert (code, len(lines)) == (1, 1), lines
    assert f"ledger {writer.ledger_id} is open" in lines[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_seed_that_breaks_a_promise_on_a_cluster_is_named(master: str, tmp_path: Path) -> None:
    sim = ("sim", "--first-seed=15", "--seeds=10", "--seeds-a-task=5", f"--output={tmp_path}/out")
    arguments = [*sim, f"--spark={master}", *on(master)[1:]]
    planted = (
        "from bookledger.cli import main; from bookledger.cli.spark import sim; "
        f"sim.LAYERS['cores'] = {BROKEN!r}; main.main({arguments})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", planted], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    code, said, lines = ended(process)
    assert code == 1 and "violations        1" in said
    assert lines == [
        "seed 20: Failed: Violation('W3: it does not hold')",
        "  repeat it with: make sim LAYER=cores SEED=20",
        f"bookledger: 1 of 10 seeds violated a guarantee; all outcomes are in {tmp_path}/out",
    ]


@pytest.mark.long
def test_a_process_that_is_killed_leaves_nothing_of_what_it_shipped(
    cluster: Cluster, master: str, tmp_path: Path
) -> None:
    ledger_id = cluster.write([b"."] * 1000)
    (tmp_path / "tmp").mkdir()
    process = started(
        "replay",
        f"--metadata={cluster.uri}",
        f"--ledgers={ledger_id}",
        f"--output={tmp_path}/out",
        *on(master),
        f"--conf=spark.local.dir={tmp_path}/tmp",
        environment={"TMPDIR": f"{tmp_path}/tmp"},
    )
    until(lambda: bool(list(tmp_path.rglob(SHIPPED_NAME))))
    process.kill()
    process.communicate()
    until(lambda: not list(tmp_path.rglob(SHIPPED_NAME)))


def on(master: str) -> tuple[str, ...]:
    """Options for that cluster; its workers have little memory."""
    return f"--master={master}", "--conf=spark.executor.memory=512m", "--conf=spark.driver.host=127.0.0.1"


def run_job(*arguments: str) -> dict[str, Any]:
    """What the job prints last."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_job", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said
