"""Sessions beside what else a process does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes

pytestmark = pytest.mark.usefixtures("spark")  # there is a Java


@pytest.mark.long
def test_spark_starts_in_a_process_that_has_a_client_in_use(tmp_path: Path) -> None:
    """Its start forks: what gRPC does at a fork must not crash either side."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tests.spark.beside_a_client", uri],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.stdout.splitlines() == ["1 1", "2"], done.stderr
    assert done.returncode == 0
