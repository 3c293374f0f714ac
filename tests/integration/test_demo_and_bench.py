"""The two commands the README begins with, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from tests.integration.test_command_line import bookledger
from tests.support.etcd import EtcdServer


def children_left() -> list[str]:
    return [
        " ".join(child.cmdline())
        for child in psutil.Process().children()
        if "ledgers.cli" in str(child.cmdline())
    ]


def check_demo(done: subprocess.CompletedProcess[bytes]) -> None:
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["ok"] is True
    assert said["sha256_read_back"] == said["sha256_of_the_file"]
    assert said["stale_writer"] == "LedgerFenced"
    assert said["fragments"] >= 2
    assert said["entries"] >= said["confirmed_before_the_kill"] > 0
    assert children_left() == []


def test_the_demo_loses_nothing_with_the_embedded_metadata() -> None:
    check_demo(bookledger("demo", "--json"))


def test_the_demo_loses_nothing_with_etcd(etcd: EtcdServer) -> None:
    check_demo(bookledger("demo", "--json", f"--metadata=etcd://{etcd.endpoint}/{uuid.uuid4()}"))


def test_the_demo_refuses_a_file_too_small_to_lose(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    done = bookledger("demo", str(tmp_path / "small"))
    assert done.returncode == 1
    assert b"too small" in done.stderr


@pytest.mark.parametrize("missing", ["no/such/file"])
def test_the_demo_of_a_file_that_is_not_there_is_wrong_usage(missing: str) -> None:
    assert bookledger("demo", missing).returncode == 2


def test_bench_prints_one_object_a_workload_beside_the_baseline() -> None:
    done = bookledger("bench", "--json", "--seconds=0.5")
    assert done.returncode == 0, done.stderr.decode()
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["entry_bytes"], r["in_flight"]) for r in results] == [(1000, 4000), (100, 8000), (1000, 1)]
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
            result["adds_per_s"] * result["entry_bytes"] / 1e6, rel=0.01
        )
    assert children_left() == []


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "ledgers.cli", "--help"], capture_output=True, check=True)
    assert b"standalone" in done.stdout
