"""`bookledger bench`, on real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bookledger.cli.bench.picture import BARS, NAMES, WIDTH, picture_of
from bookledger.cli.bench.workloads import WORKLOADS, Result
from tests.support.command_line import bookledger, children_left, fails_with_one_line

SVG = "{http://www.w3.org/2000/svg}"


def test_bench_prints_one_object_a_workload_beside_the_baseline(tmp_path: Path) -> None:
    picture = tmp_path / "bench.svg"
    done = bookledger("bench", "--json", "--seconds=0.5", f"--picture={picture}")
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
            "client_cpu_us",
            "bookies_cpu_us",
            "baseline_mb_per_s",
            "ratio",
        }
        assert result["baseline_mb_per_s"] > 0
        assert 0 < result["p50_ms"] <= result["p99_ms"]
        # Nobody has more than all processors for as long as it took; ticks of 10 ms leave some room.
        us_max = 1.2e6 * (os.cpu_count() or 1) / result["adds_per_s"]
        assert 0 < result["client_cpu_us"] <= us_max
        assert 0 <= result["bookies_cpu_us"] <= us_max
        assert result["mb_per_s"] == pytest.approx(
            result["adds_per_s"] * result["entry_bytes"] / 1e6, rel=0.01, abs=0.001
        )
    assert children_left() == []
    texts = [element.text or "" for element in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert {workload.name for workload in WORKLOADS} <= set(texts)
    assert any("baseline: " in text for text in texts)


def test_a_picture_is_never_written_over_another_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "exists already" in fails_with_one_line("bench", f"--picture={tmp_path}/mine")


@pytest.mark.parametrize("p50", [0.0, 0.02, 900.0])
def test_a_picture_holds_whatever_was_measured(p50: float) -> None:
    result = Result("<reading> & more", 1000, 1, 5.0, 0.0, p50, p50 * 2, 9.0, 9.0, 390.6, 0.0)
    root = ElementTree.fromstring(picture_of([result, result], "now"))
    assert "<reading> & more" in [element.text for element in root.iter(f"{SVG}text")]
    for element in root.iter(f"{SVG}circle"):
        assert NAMES + BARS <= float(element.attrib["cx"]) <= WIDTH
    for element in root.iter(f"{SVG}rect"):
        assert 0 <= float(element.attrib["width"]) <= BARS
    with pytest.raises(ValueError, match="nothing was measured"):
        picture_of([], "now")


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "bookledger", "--help"], capture_output=True, check=True)
    assert b"standalone" in done.stdout
