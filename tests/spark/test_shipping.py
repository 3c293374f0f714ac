"""Executors that are processes of their own: our packages reach them, and two attempts at a task count once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from spark.session import PACKAGES, packages_file
from tests.spark.conftest import Cluster, events_in
from tests.spark.standalone import spark_cluster

ROOT = Path(__file__).parents[2]


def test_the_packages_are_one_file_that_can_be_imported_from(tmp_path: Path) -> None:
    shipped = packages_file(PACKAGES)
    names = zipfile.ZipFile(shipped).namelist()
    assert {"spark/source.py", "bookie/wire/bookie_pb2.py", "metadata/__init__.py"} <= set(names)
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]
    code = "import spark.reading, spark.stream, spark.edits_source; print(spark.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(shipped)!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().startswith(str(shipped))


def test_executors_use_what_was_shipped_and_speculation_counts_nothing_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    ledger_id = cluster.write([b"." * 100] * 1000)
    (tmp_path / "events").mkdir()
    with spark_cluster(tmp_path) as master:
        said = run_job(master, cluster.uri, str(ledger_id), "20000", str(tmp_path / "events"))
    assert said["rows"] == list(range(1000))
    assert all("bookledger.zip" in place for place in said["places"])
    assert b'"Speculative":true' in events_in(tmp_path / "events")


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
