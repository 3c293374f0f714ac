"""`bookledger bookie` and `standalone`: what they serve, and what they refuse."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bookledger.cli.processes import Child, bookie_processes
from tests.support.command_line import bookledger, fails_with_one_line, lines
from tests.support.long_runs import first_then_long

LEASE_SECONDS = 6.0


def test_sigterm_stops_a_bookie_cleanly_and_its_name_is_free_at_once(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        assert bookie.stop() == 0
        assert bookledger("bookie", "info", f"--metadata={uri}").stdout == b"no bookie is registered\n"


@pytest.mark.parametrize("name", first_then_long(["we#ird 100%?", "what?", "100%", "a b", "quo\"te'd"]))
def test_standalone_serves_and_keeps_its_data_for_the_next_time_whatever_its_directory_is_called(
    tmp_path: Path, name: str
) -> None:
    command = ["-m", "bookledger", "standalone", "--json", "--port=0", f"--data={tmp_path / name}"]
    with Child(command) as first:
        meta = f"--metadata={first.hear()['metadata']}"
        assert bookledger("ledger", "append", meta, stdin=lines(3)).returncode == 0
        assert first.stop() == 0
    with Child(command) as second:
        second.hear()
        assert bookledger("ledger", "read", meta, "1").stdout == b"0\tline 0\n1\tline 1\n2\tline 2\n"
        assert second.stop() == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_bookie_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    """No process is left behind, however the demo or a test ends."""
    program = (
        "import sys; from pathlib import Path; from bookledger.cli.processes import bookie_processes\n"
        "with bookie_processes(1, Path(sys.argv[1]), 'sqlite://' + sys.argv[1] + '/metadata.db') as (b,):\n"
        "    print(b.child.pid, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        bookie = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    bookie.wait(30)


def test_a_bookie_that_was_killed_has_its_name_again_at_once_on_another_port(tmp_path: Path) -> None:
    """Its lease has not run out, but the lock under which it was registered is free."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri, lease_seconds=600) as (bookie,):
        bookie.kill()
        command = ["-m", "bookledger", "bookie", "run", "--json", f"--metadata={uri}", "--port=0"]
        with Child([*command, f"--data={bookie.directory}"]) as again:
            assert again.hear()["bookie_id"] == bookie.bookie_id


@pytest.mark.long
@pytest.mark.parametrize("store", first_then_long(["sqlite", "etcd"]))
def test_a_name_is_taken_over_when_the_lease_of_a_killed_bookie_has_run_out(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    if store == "sqlite":
        uri = f"sqlite://{tmp_path}/metadata.db"
    else:
        uri = f"etcd://{request.getfixturevalue('etcd').endpoint}/taken-over-{tmp_path.name}"
    with bookie_processes(1, tmp_path, uri, lease_seconds=LEASE_SECONDS) as (bookie,):
        name = bookie.bookie_id
        command = ("bookie", "format", f"--metadata={uri}", "--replace", f"--id={name}")
        line = fails_with_one_line(*command, f"--data={tmp_path}/new")
        assert re.search(
            r"is registered: it is alive, or was killed and its lease runs for another \d s", line
        )
        assert not (tmp_path / "new").exists()
        done = bookledger(*command, f"--data={tmp_path}/new", "--wait")
        assert (done.returncode, b"is registered: it is alive" in done.stderr) == (1, True), "it lives"
        bookie.kill()
        killed_at = time.monotonic()
        assert "--wait" in fails_with_one_line(*command, f"--data={tmp_path}/new")
        refused_after_seconds = time.monotonic() - killed_at
        done = bookledger(*command, f"--data={tmp_path}/new", "--wait")
        assert done.returncode == 0
        assert time.monotonic() - killed_at > LEASE_SECONDS / 2, "not while it may live"
        # On a machine that takes seconds to start a program the lease may have run out meanwhile.
        assert b"waiting" in done.stderr or refused_after_seconds > LEASE_SECONDS / 6
