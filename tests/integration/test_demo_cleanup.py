"""However a demo is stopped, no process outlives it, and its files are gone at the latest with the next run."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from tests.support.long_runs import first_then_long
from tests.support.stopping import line_with, started, stopped

END_SECONDS_MAX = 30.0

STEPS = ["started 4 bookies", "was paused with SIGSTOP", "kill -9 demo-"]


def demo(directory: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A demo whose temporary files are under `directory`."""
    return started("demo", *arguments, env={**os.environ, "TMPDIR": str(directory)})


def until(running: subprocess.Popen[str], step: str) -> list[psutil.Process]:
    """Reads on until the demo says that it took this step; returns every process it has then."""
    line_with(running, step)
    children: list[psutil.Process] = psutil.Process(running.pid).children(recursive=True)
    return children


def scratch_in(directory: Path) -> list[Path]:
    return list(directory.glob("bookledger-demo-*"))


@pytest.mark.parametrize("step", first_then_long(STEPS))
@pytest.mark.parametrize("how", first_then_long([signal.SIGTERM, signal.SIGHUP, signal.SIGINT]))
def test_a_demo_that_is_told_to_stop_leaves_nothing(tmp_path: Path, step: str, how: signal.Signals) -> None:
    with demo(tmp_path) as running:
        children = until(running, step)
        assert len(children) >= 3
        said = stopped(running, how)
    word = "interrupted" if how is signal.SIGINT else "stopped"
    gone = "its bookies have ended, and their files are gone; go on with: bookledger demo"
    assert said == f"bookledger: {word}; {gone}\n"
    assert psutil.wait_procs(children, END_SECONDS_MAX)[1] == []
    assert scratch_in(tmp_path) == []


def test_a_demo_on_a_store_that_is_there_says_what_that_keeps(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with demo(tmp_path, f"--metadata={uri}") as running:
        until(running, STEPS[0])
        said = stopped(running)
    assert said == (
        "bookledger: interrupted; its bookies have ended, and their files are gone, but "
        f"{uri} keeps its ledgers and the names demo-{running.pid}-bookie-…; "
        f"go on with: bookledger demo --metadata={uri}\n"
    )


@pytest.mark.long
@pytest.mark.parametrize("step", first_then_long(STEPS))
def test_a_demo_that_is_killed_leaves_no_process_and_its_files_to_the_next(tmp_path: Path, step: str) -> None:
    (tmp_path / "tiny").write_bytes(b"0123456789")
    with demo(tmp_path) as running:
        children = until(running, step)
        running.kill()
    assert psutil.wait_procs(children, END_SECONDS_MAX)[1] == []
    (left,) = scratch_in(tmp_path)
    with demo(tmp_path, "--record-bytes=1", str(tmp_path / "tiny")) as after:
        until(after, f"removed {left}, which a demo that was killed had left")
        assert not left.exists()
        line_with(after, "verdict: OK")
        assert after.wait(END_SECONDS_MAX) == 0
    assert scratch_in(tmp_path) == []


@pytest.mark.long
def test_a_demo_leaves_the_files_of_another_one_alone(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_bytes(b"0123456789")
    with demo(tmp_path) as running:
        until(running, STEPS[0])
        running.send_signal(signal.SIGSTOP)
        (in_use,) = scratch_in(tmp_path)
        with demo(tmp_path, "--record-bytes=1", str(tmp_path / "tiny")) as beside:
            assert beside.wait(120) == 0
        assert in_use.exists()
        running.send_signal(signal.SIGCONT)
        line_with(running, "verdict: OK")
        assert running.wait(END_SECONDS_MAX) == 0
