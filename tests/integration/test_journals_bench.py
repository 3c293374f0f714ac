"""`bookledger journal bench`, on real processes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bookledger.cli.bench.journals import WORKLOADS, journal_bench
from tests.support.command_line import children_left


def test_journal_bench_prints_flushes_beside_appends_one_object_a_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bookledger.cli.bench.journals.ROUNDS", 1)
    done = CliRunner().invoke(journal_bench, ["--json", "--seconds=0.1"])
    assert done.exit_code == 0, done.output
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["workload"] for result in results] == [workload.name for workload in WORKLOADS]
    for workload, result in zip(WORKLOADS, results, strict=True):
        assert result["batch_bytes"] == workload.batch_bytes
        assert result["batches_per_s"] > 0
        assert 0 < result["p50_ms"] <= result["p99_ms"]
        assert (result["times_ledger"] == 1) or not result["workload"].startswith("ledger")
    assert children_left() == []
