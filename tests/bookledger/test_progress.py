"""Bars of progress: on the terminal that stderr is, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import pytest

from bookledger.cli.output import Progress
from bookledger.cli.processes import bookie_processes
from tests.support.waiting import until

SECONDS_MAX = 60
LINES = b"line\n" * 20_000


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("progress")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri):
        yield uri


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Whoever looks at it, and the terminal itself."""
    sight, inside = pty.openpty()
    try:
        yield sight, inside
    finally:
        os.close(sight)


def seen(sight: int) -> bytes:
    """All that was written there, after everybody has closed it."""
    found = b""
    try:
        while more := os.read(sight, 65536):
            found += more
    except OSError:  # how a terminal says that nobody is left
        pass
    return found


def append(uri: str, *, stdout: int, stderr: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "bookledger", "ledger", "append", f"--metadata={uri}"],
        input=LINES,
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        timeout=SECONDS_MAX,
        check=True,
    )


def test_a_bar_is_drawn_on_the_terminal_that_stderr_is(uri: str) -> None:
    with terminal() as (sight, inside):
        done = append(uri, stdout=subprocess.PIPE, stderr=inside)
        os.close(inside)
        drawn = seen(sight)
    assert b"appending to ledger" in drawn and b"\x1b[" in drawn
    assert b"\x1b" not in done.stdout and b"97.7 KiB (100,000 bytes)" not in drawn


def test_a_bar_tells_the_rate_and_the_time_left_where_the_end_is_known(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for of, rate in (("bytes", "/s"), ("keys", "keys/s")):
        with Progress("restoring", 1000, of=of) as bar:
            bar(1)
        assert "left" in capfd.readouterr().err
        with Progress("restoring", None, of=of) as bar:
            until(partial(_is_drawn, bar, capfd, rate))


def test_what_is_printed_beside_a_bar_goes_where_standard_output_goes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("salvaging", 10):
        click.echo("missing: entry 7")
    told = capfd.readouterr()
    assert told.out == "missing: entry 7\n"
    assert "salvaging" in told.err and "missing" not in told.err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with Progress("reading", 10, prints=True):
        click.echo("0\tan entry")
    assert capfd.readouterr() == ("0\tan entry\n", ""), "no bar between the lines"


def _is_drawn(bar: Progress, capfd: pytest.CaptureFixture[str], rate: str) -> bool:
    bar(1)
    told = capfd.readouterr().err
    assert "left" not in told
    return rate in told


def test_in_a_pipe_there_is_none_even_if_stdout_is_a_terminal(uri: str, tmp_path: Path) -> None:
    with terminal() as (sight, inside):
        done = append(uri, stdout=inside, stderr=subprocess.PIPE)
        os.close(inside)
        shown = seen(sight)
    assert done.stderr == b""
    assert b"appending to ledger" not in shown and b"entries" in shown
    assert append(uri, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stderr == b""


def test_what_is_done_is_counted_without_a_terminal_too(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("restoring", 10, of="keys") as bar:
        bar(3)
        bar(4)
    assert bar.done == 7
    assert capfd.readouterr() == ("", "")
