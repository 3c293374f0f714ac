"""`bookledger bench`, on real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bookledger.cli.bench.baseline import Baseline
from bookledger.cli.bench.page import BenchRun, page_of
from bookledger.cli.bench.picture import BARS, NAMES, WIDTH, picture_of
from bookledger.cli.bench.workloads import SWEEP, WORKLOADS, WorkloadResult
from tests.support import browser as chromium
from tests.support.browser import DESKTOP, PHONE, browser, complaints, look_as, violations
from tests.support.command_line import children_left, fails_with_one_line, succeeds

SVG = "{http://www.w3.org/2000/svg}"


def test_bench_prints_one_object_a_workload_beside_the_baseline(tmp_path: Path) -> None:
    picture, page = tmp_path / "bench.svg", tmp_path / "bench.html"
    done = succeeds("bench", "--json", "--seconds=0.5", f"--picture={picture}", f"--html={page}")
    results = [json.loads(line) for line in done.splitlines()]
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
            "of_lists",
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
    assert [r["workload"] for r in results if r["of_lists"]] == [
        "throughput",
        "throughput, blocking",
        "small entries",
        "small entries, blocking",
    ]
    assert children_left() == []
    texts = [element.text or "" for element in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert {workload.name for workload in WORKLOADS} <= set(texts)
    assert any("baseline: " in text for text in texts)
    drawn = page.read_text()
    assert drawn.count('class="dot mb"') == len(SWEEP) == drawn.count('class="dot p99"')
    assert f"baseline {results[0]['baseline_mb_per_s']:,.0f} MB/s" in drawn


@pytest.mark.parametrize("option", ["--picture", "--html"])
def test_a_picture_is_never_written_over_another_file(tmp_path: Path, option: str) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "already exists" in fails_with_one_line("bench", f"{option}={tmp_path}/mine")


def a_run() -> BenchRun:
    """Of numbers that nobody has measured."""
    many = [WorkloadResult("<reading> & more", 1000, 1, 5.0, 0.0, 0.02, 900.0, 9.0, 9.0, 390.6, 0.0)]
    sweep = [
        WorkloadResult(
            one.name, 1000, one.in_flight, 900.0, 0.09 * one.in_flight, 1.5, 3.0, 9.0, 9.0, 390.6, 0.2
        )
        for one in SWEEP
    ]
    return BenchRun(many, sweep, Baseline(1.5, 0.6, 1.9))


def test_a_page_draws_throughput_and_latency_beside_the_baselines_of_the_run() -> None:
    page = page_of(a_run(), "now")
    throughput, latency, _ = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert _heights(throughput, "mb") == sorted(_heights(throughput, "mb"), reverse=True), (
        "more in flight is faster"
    )
    assert min(_heights(throughput, "mb")) > _rules(throughput)["mb"], "and below the baseline"
    assert max(_heights(latency, "p99")) < min(_heights(latency, "p50")) < _rules(latency)["p50"]
    assert "&lt;reading&gt; &amp; more" in page and "<reading>" not in page


def _heights(svg: str, kind: str) -> list[float]:
    """Of the dots of a line, in order."""
    return [float(one) for one in re.findall(rf'class="dot {kind}" cx="[\d.]+" cy="([\d.]+)"', svg)]


def _rules(svg: str) -> dict[str, float]:
    found = re.findall(r'class="rule (\w+)" x1="[\d.]+" y1="([\d.]+)"', svg)
    return {kind: float(height) for kind, height in found}


def test_a_page_needs_nothing_but_itself() -> None:
    page = page_of(a_run(), "now").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|<script|<link|src=|href=|url\(|@import", page)
    with pytest.raises(ValueError, match="no measurements with increasing numbers"):
        page_of(BenchRun(a_run().results, []), "now")


@pytest.mark.skipif(bool(chromium.WHY_NOT), reason=chromium.WHY_NOT)
def test_a_page_reads_well_in_a_browser(tmp_path: Path) -> None:
    file = tmp_path / "bench.html"
    file.write_text(page_of(a_run(), "now"))
    with browser(tmp_path / "profile") as driver:
        for size, dark in ((DESKTOP, False), (PHONE, True)):
            look_as(driver, size, dark=dark)
            driver.get(file.as_uri())
            assert violations(driver) == complaints(driver) == []
            assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("p50", [0.0, 0.02, 900.0])
def test_a_picture_holds_whatever_was_measured(p50: float) -> None:
    result = WorkloadResult("<reading> & more", 1000, 1, 5.0, 0.0, p50, p50 * 2, 9.0, 9.0, 390.6, 0.0)
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
