"""A coroutine that hangs is a failure that shows where, and its event loop ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOOPS = """
import asyncio

LOOPS = []

async def test_first():
    LOOPS.append(asyncio.get_running_loop())
    await asyncio.Event().wait()  # for ever

async def test_second():
    assert LOOPS[0] is not asyncio.get_running_loop() and LOOPS[0].is_closed()
"""

PLUGIN = """
from tests.support import aio

pytest_plugins = ["tests.support.hangs"]
aio.TEST_SECONDS_MAX = 0.1
"""


def test_a_test_that_hangs_fails_where_it_waits_and_the_next_has_a_loop_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(LOOPS)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    root = Path(__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--asyncio-mode=auto",
        f"--rootdir={tmp_path}",
    ]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    assert "await asyncio.Event().wait()  # for ever" in done.stdout and "TimeoutError" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
