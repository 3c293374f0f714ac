"""`bookledger bench`, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bookledger.cli.bench.workloads import WORKLOADS
from tests.support.command_line import bookledger, children_left


def test_bench_prints_one_object_a_workload_beside_the_baseline() -> None:
    done = bookledger("bench", "--json", "--seconds=0.5")
    assert done.returncode == 0, done.stderr.decode()
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["workload"] for r in results] == [workload.name for workload in WORKLOADS]
    for result in results:
        assert set(result) == {
            "workload",
            "entry_bytes",
            "in_flight",
            "adds_per_s",
            "mb_per_s",
            "p50_ms",
            "p99_ms",
            "baseline_mb_per_s",
            "ratio",
        }
        assert result["baseline_mb_per_s"] > 0
        assert 0 < result["p50_ms"] <= result["p99_ms"]
        assert result["mb_per_s"] == pytest.approx(
            result["adds_per_s"] * result["entry_bytes"] / 1e6, rel=0.01, abs=0.001
        )
    assert children_left() == []


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "bookledger", "--help"], capture_output=True, check=True)
    assert b"standalone" in done.stdout
