"""Bars of progress: on the terminal that stderr is, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import pytest

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.cluster_view import look
from bookie.upkeep.repair_client import NoPeers
from bookie.upkeep_config import UpkeepConfig
from bookledger.cli import output
from bookledger.cli.output import ProgressBar
from bookledger.cluster.survey import survey
from metadata import open_store
from tests.support.made_clusters import BOOKIES, a_cluster_in_memory
from tests.support.stopping import silent_server
from tests.support.waiting import until

SECONDS_MAX = 60
LINES = b"line\n" * 20_000


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
        with ProgressBar("restoring", 1000, of=of) as bar:
            bar(1)
        assert "left" in capfd.readouterr().err
        with ProgressBar("restoring", None, of=of) as bar:
            until(partial(_is_drawn, bar, capfd, rate))


def test_mostly_quick_work_has_a_bar_only_where_it_is_not_quick_also_where_it_hangs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressBar("looking", None, of="ledgers", is_mostly_quick=True) as bar:
        bar(1)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(output, "QUICK_SECONDS", 0.01)
    with ProgressBar("looking", None, of="ledgers", is_mostly_quick=True):
        until(lambda: "looking" in capfd.readouterr().err)


def test_a_bar_has_all_that_is_done_though_it_is_told_of_many_small_steps_at_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(output, "REDRAWN_SECONDS", 0.2)
    with ProgressBar("looking", 1_000_000, of="ledgers") as bar:
        for _ in range(999):
            bar(1)
        until(lambda: _is_shown(bar, capfd))
    assert bar.done > 999


def _is_shown(bar: ProgressBar, capfd: pytest.CaptureFixture[str]) -> bool:
    """Once it has been told again, all steps that were too close to each other are in it."""
    bar(1)
    counts = re.findall(r"(\d+)/1000000", capfd.readouterr().err)
    return any(int(count) >= 1000 for count in counts)


async def test_a_survey_and_an_audit_tell_of_every_ledger_that_they_have_looked_at() -> None:
    store = await open_store(await a_cluster_in_memory(ledgers=7))
    surveyed: list[int] = []
    audited: list[int] = []
    await survey(store, wait_ms=0, on_ledger=surveyed.append)
    auditor = Auditor(store, BOOKIES[0], UpkeepConfig(), lambda: 0.0, NoPeers())
    await auditor.audit(await look(store, 0), audited.append)
    assert sum(surveyed) == sum(audited) == 7


HANGING = (
    ("cluster status", "looking at ledgers", "nothing was changed; begin again with: "),
    ("cluster bookies", "looking at ledgers", "nothing was changed; begin again with: "),
    ("cluster audit", "looking at ledgers", "ledgers marked so far are healed; go on with: "),
    ("ledger list", "looking at ledgers", "perhaps no ledger was printed; begin again with: "),
    ("metadata backup FILE", "backing up", " was not written; begin again with: "),
    ("metadata check", "looking at ledgers", "nothing was changed; begin again with: "),
    ("journal list", "asking the metadata", "nothing was changed; begin again with: "),
    ("journal show ns1", "looking at ns1", "nothing was changed; begin again with: "),
    ("journal recover ns1", "recovering ns1", "only a new writer can continue; go on with: "),
    ("bookie info", "asking the metadata", "nothing was changed; begin again with: "),
)
"""What a command's bar says while its metadata hangs, and what the command says when it is interrupted."""


@pytest.mark.parametrize(("command", "title", "said"), HANGING, ids=[command for command, *_ in HANGING])
def test_a_command_that_hangs_shows_a_bar_and_says_how_to_go_on_when_it_is_interrupted(
    tmp_path: Path, command: str, title: str, said: str
) -> None:
    arguments = command.replace("FILE", str(tmp_path / "file")).split()
    with terminal() as (sight, inside), silent_server() as port:
        metadata = f"--metadata=etcd://127.0.0.1:{port}/x?timeout=60"
        with subprocess.Popen(
            [sys.executable, "-m", "bookledger", *arguments, metadata],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=inside,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        ) as program:
            os.close(inside)
            try:
                _read_until(sight, title)
                program.send_signal(signal.SIGINT)
                rest = seen(sight).decode()
                assert program.wait(SECONDS_MAX) == 130, rest
            finally:
                program.kill()
    assert f"{said}bookledger {' '.join(arguments[:2])} " in rest


def _read_until(sight: int, words: str) -> None:
    shown = b""
    while words.encode() not in shown:
        assert select.select([sight], [], [], SECONDS_MAX)[0], f"only this was shown: {shown!r}"
        shown += os.read(sight, 65536)


def test_what_is_printed_beside_a_bar_goes_where_standard_output_goes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressBar("salvaging", 10):
        click.echo("missing: entry 7")
    told = capfd.readouterr()
    assert told.out == "missing: entry 7\n"
    assert "salvaging" in told.err and "missing" not in told.err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with ProgressBar("reading", 10, prints=True):
        click.echo("0\tan entry")
    assert capfd.readouterr() == ("0\tan entry\n", ""), "no bar between the lines"


def _is_drawn(bar: ProgressBar, capfd: pytest.CaptureFixture[str], rate: str) -> bool:
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
    with ProgressBar("restoring", 10, of="keys") as bar:
        bar(3)
        bar(4)
    assert bar.done == 7
    assert capfd.readouterr() == ("", "")
