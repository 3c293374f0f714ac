"""The command line on real processes: what it prints, and one clear line for every wrong input."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ledgers.cli.processes import Child, bookie_processes


def bookledger(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ledgers.cli", *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


def fails_with_one_line(*arguments: str, stdin: bytes = b"") -> str:
    done = bookledger(*arguments, stdin=stdin)
    assert done.returncode == 1, done
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("bookledger: ")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metadata of three running bookies."""
    directory = tmp_path_factory.mktemp("cluster")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri):
        yield uri


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(count))


def test_lines_appended_are_read_back_listed_shown_and_deleted(uri: str) -> None:
    meta = f"--metadata={uri}"
    appended = json.loads(bookledger("ledger", "append", "--json", meta, stdin=lines(1000)).stdout)
    ledger_id = str(appended["ledger_id"])
    assert appended["entries"] == 1000
    read = bookledger("ledger", "read", meta, ledger_id, "--first=998")
    assert read.stdout == b"998\tline 998\n999\tline 999\n"
    shown = json.loads(bookledger("ledger", "show", "--json", meta, ledger_id).stdout)
    assert (shown["state"], shown["last_entry"], len(shown["fragments"][0]["bookies"])) == ("closed", 999, 3)
    listed = [json.loads(line) for line in bookledger("ledger", "list", "--json", meta).stdout.splitlines()]
    assert appended["ledger_id"] in [record["ledger_id"] for record in listed]
    assert bookledger("ledger", "delete", "--yes", meta, ledger_id).returncode == 0
    assert fails_with_one_line("ledger", "read", meta, ledger_id) == f"there is no ledger {ledger_id}"


def test_a_reserved_ledger_has_exactly_one_writer(uri: str) -> None:
    meta = f"--metadata={uri}"
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    assert bookledger("ledger", "append", meta, f"--ledger={ledger_id}", stdin=b"one\n").returncode == 0
    assert "has or had a writer" in fails_with_one_line(
        "ledger", "append", meta, f"--ledger={ledger_id}", stdin=b"two\n"
    )
    assert bookledger("ledger", "read", meta, ledger_id).stdout == b"0\tone\n"


def test_tail_follows_an_open_ledger_to_its_close(uri: str) -> None:
    meta = f"--metadata={uri}"
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    with (
        subprocess.Popen(
            [sys.executable, "-m", "ledgers.cli", "ledger", "append", meta, f"--ledger={ledger_id}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as appending,
        subprocess.Popen(
            [sys.executable, "-m", "ledgers.cli", "ledger", "tail", meta, ledger_id], stdout=subprocess.PIPE
        ) as tailing,
    ):
        assert appending.stdin is not None
        assert tailing.stdout is not None
        for n in range(5):
            appending.stdin.write(b"entry %d\n" % n)
            appending.stdin.flush()
            assert tailing.stdout.readline() == b"%d\tentry %d\n" % (n, n), (
                "the last entry of an idle writer is seen"
            )
        appending.stdin.close()
        assert tailing.stdout.read() == b""
        assert tailing.wait(30) == 0
        assert appending.wait(30) == 0


def test_an_append_notices_that_its_ledger_was_recovered(uri: str) -> None:
    meta = f"--metadata={uri}"
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    with subprocess.Popen(
        [sys.executable, "-m", "ledgers.cli", "ledger", "append", meta, f"--ledger={ledger_id}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as appending:
        assert appending.stdin is not None
        assert appending.stderr is not None
        appending.stdin.write(b"before\n")
        appending.stdin.flush()
        while bookledger("ledger", "read", meta, ledger_id).stdout != b"0\tbefore\n":
            pass
        assert bookledger("ledger", "recover", meta, ledger_id).returncode == 0
        with contextlib.suppress(BrokenPipeError):
            while appending.poll() is None:
                appending.stdin.write(b"after\n")
                appending.stdin.flush()
        assert b"has been fenced" in appending.stderr.read()
        with contextlib.suppress(BrokenPipeError):
            appending.stdin.close()
        assert appending.wait(30) == 1


def test_recover_closes_a_ledger_whose_writer_is_gone(uri: str) -> None:
    meta = f"--metadata={uri}"
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    recovered = json.loads(bookledger("ledger", "recover", "--json", meta, ledger_id).stdout)
    assert (recovered["state"], recovered["last_entry"]) == ("closed", -1)
    again = json.loads(bookledger("ledger", "recover", "--json", meta, ledger_id).stdout)
    assert again["last_entry"] == -1


def test_bookie_info_shows_every_live_bookie(uri: str) -> None:
    said = [
        json.loads(line)
        for line in bookledger("bookie", "info", "--json", f"--metadata={uri}").stdout.splitlines()
    ]
    assert [row["bookie_id"] for row in said] == ["bookie-1", "bookie-2", "bookie-3"]
    assert {row["state"] for row in said} == {"serving"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--ensemble=2", "--write-quorum=3"), "do not fit"),
        (("--ensemble=3", "--write-quorum=2", "--ack-quorum=3"), "do not fit"),
        (("--ensemble=3", "--ack-quorum=0"), "do not fit"),
        (("--ensemble=5",), "not enough bookies for a new ledger (ensemble size 5, 3 usable)"),
        (("--digest=hmac_sha256",), "needs a password"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_and_no_ledger_is_made(
    uri: str, arguments: tuple[str, ...], says: str
) -> None:
    before = bookledger("ledger", "list", "--json", f"--metadata={uri}").stdout
    assert says in fails_with_one_line("ledger", "append", f"--metadata={uri}", *arguments, stdin=b"x\n")
    assert bookledger("ledger", "list", "--json", f"--metadata={uri}").stdout == before


def test_an_oversized_entry_is_refused_by_its_size(uri: str) -> None:
    line = fails_with_one_line("ledger", "append", f"--metadata={uri}", stdin=bytes(4 * 1024 * 1024 + 1))
    assert "over the limit of 4194304 bytes; split it" in line


@pytest.mark.parametrize(
    "wrong",
    [
        "nonsense",
        "http://127.0.0.1/x",
        "sqlite://relative.db",
        "etcd://",
        "sqlite:///no/such/directory/metadata.db",
    ],
)
def test_a_wrong_metadata_uri_is_named(wrong: str) -> None:
    line = fails_with_one_line("ledger", "list", f"--metadata={wrong}")
    assert wrong.removeprefix("sqlite://") in line or wrong in line


def test_an_etcd_that_is_not_there_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "did not answer" in fails_with_one_line(
        "ledger", "list", f"--metadata=etcd://127.0.0.1:{port}/x?timeout=1"
    )


def test_a_bookie_refuses_an_unformatted_directory(tmp_path: Path) -> None:
    meta = f"--metadata=sqlite://{tmp_path}/metadata.db"
    line = fails_with_one_line("bookie", "run", meta, f"--data={tmp_path}/nothing", "--port=0")
    assert "is not a formatted bookie directory; run: bookledger bookie format" in line
    assert not (tmp_path / "nothing").exists()


def test_a_bookie_refuses_a_foreign_directory(tmp_path: Path) -> None:
    for name in ("one", "two"):
        uri = f"--metadata=sqlite://{tmp_path}/{name}.db"
        assert bookledger("bookie", "format", uri, f"--data={tmp_path}/{name}", "--id=b").returncode == 0
    before = sorted(tmp_path.joinpath("two").rglob("*"))
    line = fails_with_one_line(
        "bookie", "run", f"--metadata=sqlite://{tmp_path}/one.db", f"--data={tmp_path}/two", "--port=0"
    )
    assert "another cluster" in line
    assert before == sorted(tmp_path.joinpath("two").rglob("*"))


def test_a_bookie_does_not_format_what_holds_anything(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("mine")
    meta = f"--metadata=sqlite://{tmp_path}/metadata.db"
    line = fails_with_one_line("bookie", "format", meta, f"--data={tmp_path}/data", "--id=b")
    assert "is not an empty directory" in line
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["precious"]


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    meta = f"--metadata=sqlite://{tmp_path}/metadata.db"
    assert bookledger("bookie", "format", meta, f"--data={tmp_path}/b", "--id=b").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = fails_with_one_line("bookie", "run", meta, f"--data={tmp_path}/b", f"--port={port}")
    assert f"cannot listen on 127.0.0.1:{port}" in line


def test_wrong_usage_exits_with_two(tmp_path: Path) -> None:
    assert (
        bookledger("ledger", "read", f"--metadata=sqlite://{tmp_path}/m.db", "not-a-number").returncode == 2
    )
    assert bookledger("no-such-command").returncode == 2
    assert bookledger("bookie", "info").returncode == 2


def test_sigterm_stops_a_bookie_cleanly_and_its_name_is_free_at_once(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        assert bookie.stop() == 0
        assert bookledger("bookie", "info", f"--metadata={uri}").stdout == b"no bookie is registered\n"


def test_standalone_serves_and_keeps_its_data_for_the_next_time(tmp_path: Path) -> None:
    command = ["-m", "ledgers.cli", "standalone", "--json", "--port=0", f"--data={tmp_path}/data"]
    with Child(command) as first:
        meta = f"--metadata={first.hear()['metadata']}"
        assert bookledger("ledger", "append", meta, stdin=lines(3)).returncode == 0
        assert first.stop() == 0
    with Child(command) as second:
        second.hear()
        assert bookledger("ledger", "read", meta, "1").stdout == b"0\tline 0\n1\tline 1\n2\tline 2\n"
        assert second.stop() == 0


def test_a_bookie_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    """No process is left behind, however the demo or a test ends."""
    program = (
        "import sys; from pathlib import Path; from ledgers.cli.processes import bookie_processes\n"
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
