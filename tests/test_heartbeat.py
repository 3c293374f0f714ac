"""A long run says what it is doing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = """
import time

def test_quick(): pass
def test_slow(): time.sleep(1.2)
"""

PLUGIN = """
from tests.support.heartbeat import Heartbeat

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Heartbeat(beat_seconds=0.5))
"""


@pytest.mark.parametrize("processes", [[], ["-n1"]], ids=["one process", "several"])
def test_a_test_that_takes_long_is_named_while_it_runs(tmp_path: Path, processes: list[str]) -> None:
    (tmp_path / "test_slow.py").write_text(SLOW)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *processes]
    done = subprocess.run([*command, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True)
    assert "   1 tests done; now: test_slow.py::test_slow (" in done.stderr
