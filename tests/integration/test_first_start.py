"""On a fresh machine each daemon says in one line what is missing and what to do, and ends as the documents say."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bookie.index.index import Index
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.command_line import bookledger, fails_with_one_line, succeeds
from tests.support.etcd import free_port
from tests.support.failing_disk import compiled
from tests.support.mounts import small_disk

LONG_AGO = """
#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec = 86400;
    return failed;
}
"""

JOURNAL = ("journal", "serve", "--name=jn1", "--rpc=127.0.0.1:0", "--http=127.0.0.1:0")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METADATA", "CERTS", "CONFIG", "KEY_FILE"):
        monkeypatch.delenv(f"BOOKLEDGER_{name}", raising=False)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return uri_of(tmp_path / "metadata.db")


@pytest.fixture
def formatted(tmp_path: Path, uri: str) -> Path:
    path = tmp_path / "b1"
    succeeds("bookie", "format", f"--data={path}", "--id=b1", f"--metadata={uri}")
    return path


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process, here ours, listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    "command", [("bookie", "run", "--data=x"), ("autorecovery",), JOURNAL], ids=lambda one: one[0]
)
def test_without_a_metadata_address_it_says_what_one_looks_like(command: tuple[str, ...]) -> None:
    done = bookledger(*command)
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "Missing option '--metadata'" in said
    for wanted in (
        "etcd://HOST:2379/PREFIX",
        "sqlite:///PATH",
        "BOOKLEDGER_METADATA",
        "bookledger standalone",
    ):
        assert wanted in said


def test_without_a_directory_it_says_how_to_make_one() -> None:
    done = bookledger("bookie", "run", "--metadata=sqlite:///x")
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "Missing option '--data'" in said and "bookledger bookie format --data DIR" in said


def run_on(data: Path, uri: str) -> tuple[str, ...]:
    return ("bookie", "run", f"--data={data}", f"--metadata={uri}", "--port=0")


def test_a_directory_that_is_none_is_told_with_the_command_that_makes_it(
    tmp_path: Path, formatted: Path, uri: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name, why in (
        ("missing", "does not exist"),
        ("empty", "is not a formatted bookie directory"),
        ("file", "is a file, not a directory"),
    ):
        path = tmp_path / name
        line = fails_with_one_line(*run_on(path, uri))
        assert line == f"{path} {why}; run: bookledger bookie format --data {path} --id NAME --metadata URI"
    assert not (tmp_path / "missing").exists()


def without_roots_rights(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """As an ordinary user sees files: also root must keep to their modes then."""
    drop = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}"] if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("giving up root's rights needs setpriv")
    command = [*prefix, sys.executable, "-m", "bookledger", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("part", [".", "log", "index", "cookie.json"])
def test_a_directory_that_cannot_be_written_is_told_with_whose_it_has_to_be(
    formatted: Path, uri: str, part: str
) -> None:
    path = formatted / part
    path.chmod(0o400 if path.is_file() else 0o500)
    try:
        done = without_roots_rights(*run_on(formatted, uri))
    finally:
        path.chmod(0o700)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(
        f"bookledger: {path} is not writable; the bookie runs as user {os.geteuid()}: chown"
    )


def test_a_place_that_is_not_ours_is_asked_of_root_and_nothing_above_it_is_given_away(
    tmp_path: Path, meta: str
) -> None:
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    me = os.geteuid()
    for command, data in (
        (("standalone", f"--data={place}/data", "--port=0"), place / "data"),
        (("bookie", "format", f"--data={place}/a/b1", "--id=b1", meta), place / "a" / "b1"),
    ):
        (line,) = without_roots_rights(*command).stderr.decode().splitlines()
        made = place / "a" if data.name == "b1" else data
        assert line == (
            f"bookledger: {data} cannot be created: {made}: Permission denied; as root: install -d -o {me} {data}"
        )
    (line,) = without_roots_rights("standalone", f"--data={place}", "--port=0").stderr.decode().splitlines()
    assert line == f"bookledger: {place} is not writable; as root: install -d -o {me} {place}"


@pytest.mark.parametrize("is_above", [True, False])
def test_a_directory_that_cannot_be_entered_is_told_apart_from_one_above_it(
    formatted: Path, is_above: bool
) -> None:
    locked = formatted.parent if is_above else formatted
    locked.chmod(0o600)
    try:
        done = without_roots_rights(*run_on(formatted, "etcd://127.0.0.1:1/not-asked"))
    finally:
        locked.chmod(0o700)
    why = (
        f"cannot be reached: a directory above it does not give user {os.geteuid()} access (`namei -l {formatted}`"
        if is_above
        else f"cannot be read; the bookie runs as user {os.geteuid()}: chown -R {os.geteuid()} {formatted}"
    )
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"bookledger: {formatted} {why}")


@pytest.mark.parametrize("http", [(), ("--http=127.0.0.1:0",)])
def test_what_a_start_lacks_is_told_alike_with_http_and_without(
    tmp_path: Path, formatted: Path, uri: str, http: tuple[str, ...]
) -> None:
    segment = min((formatted / "log").iterdir())
    segment.chmod(0)
    try:
        done = without_roots_rights(*run_on(formatted, uri), *http)
    finally:
        segment.chmod(0o600)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == f"bookledger: {segment}: Permission denied"


def test_an_index_that_the_system_does_not_open_is_not_told_as_damaged(formatted: Path, uri: str) -> None:
    index = formatted / "index"
    Index(index).close()
    (index / "data.mdb").chmod(0)
    try:
        forbidden = without_roots_rights(*run_on(formatted, uri))
    finally:
        (index / "data.mdb").chmod(0o600)
    limited = subprocess.run(
        ["prlimit", f"--as={2**30}", sys.executable, "-m", "bookledger", *run_on(formatted, uri)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    for done, why in (
        (forbidden, "Permission denied"),
        (limited, "Cannot allocate memory; give the process more address space"),
    ):
        said = done.stderr.decode().splitlines()[-1]
        assert done.returncode == 1
        assert said.startswith(f"bookledger: the index in {index} cannot be opened: {why}"), said
        assert "rebuild-index" not in said


def test_a_metadata_file_that_is_not_there_is_told_with_what_makes_one_and_not_made(
    tmp_path: Path, formatted: Path
) -> None:
    gone = uri_of(tmp_path / "none.db")
    for command in (
        ("bookie", "run", f"--data={formatted}", "--port=0"),
        ("autorecovery",),
        JOURNAL,
        ("ledger", "list"),
        ("ledger", "create"),
        ("bookie", "info"),
    ):
        line = fails_with_one_line(*command, f"--metadata={gone}")
        assert (
            "there is no such file; `bookledger standalone` and `bookledger bookie format` make one" in line
        )
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "command", [("autorecovery",), ("cluster", "status"), JOURNAL], ids=lambda one: one[0]
)
def test_etcd_that_is_not_there_is_told_with_what_to_do(command: tuple[str, ...]) -> None:
    line = fails_with_one_line(*command, f"--metadata=etcd://127.0.0.1:{free_port()}/x?timeout=1")
    assert "etcd did not answer within 1 s" in line
    assert '"etcd is unavailable"' in line and "sqlite:///PATH/metadata.db" in line


def first_line_of(*arguments: str) -> str:
    """What a daemon says of itself, which stops then, as it is told."""
    command = [sys.executable, "-m", "bookledger", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stderr is not None
        line = daemon.stderr.readline().decode()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    return line


def test_a_bookie_waits_for_etcd_says_what_to_do_and_stops_when_told(formatted: Path) -> None:
    away = f"etcd://127.0.0.1:{free_port()}/x?timeout=1"
    line = first_line_of(*run_on(formatted, away))
    assert "waiting for the metadata to answer before serving: etcd did not answer" in line
    assert '"etcd is unavailable"' in line


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (lambda data, uri, port: (*run_on(data, uri), f"--port={port}"), ""),
        (lambda data, uri, port: (*run_on(data, uri), f"--http=127.0.0.1:{port}"), "--http "),
        (lambda data, uri, port: ("standalone", f"--data={data}-new", f"--port={port}"), ""),
        (
            lambda data, uri, port: ("autorecovery", f"--metadata={uri}", f"--http=127.0.0.1:{port}"),
            "--http ",
        ),
        (lambda data, uri, port: (*JOURNAL, f"--metadata={uri}", f"--rpc=127.0.0.1:{port}"), "--rpc "),
    ],
)
def test_a_port_that_is_taken_is_told_with_how_to_see_by_whom(
    formatted: Path, uri: str, taken: int, command: Callable[[Path, str, int], tuple[str, ...]], what: str
) -> None:
    line = fails_with_one_line(*command(formatted, uri, taken))
    assert line.startswith(
        f"cannot listen on {what}127.0.0.1:{taken}: another process has that port (`ss -ltnp` shows which): "
        "stop it, or choose another port"
    )


def test_an_address_that_is_not_ours_is_told(formatted: Path, uri: str) -> None:
    done = bookledger(*run_on(formatted, uri), "--host=192.0.2.1", "--insecure")
    assert done.returncode == 1
    assert "this machine has no such address: `ip address` lists its addresses" in done.stderr.decode()


def test_too_few_descriptors_are_told_with_how_to_have_more(formatted: Path, uri: str) -> None:
    command = [sys.executable, "-m", "bookledger", *run_on(formatted, uri)]
    limited = ["prlimit", "--nofile=100:100", *command]
    if shutil.which("prlimit") is None:
        pytest.skip("a lower limit needs prlimit")
    done = subprocess.run(limited, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert (
        "may open 100 files, but a bookie needs at least 336: raise the limit (`ulimit -Hn`, or LimitNOFILE="
        in line
    )


@pytest.mark.parametrize("name", ["bookie", "standalone", "autorecovery"])
def test_a_clock_that_was_never_set_is_told(tmp_path: Path, formatted: Path, uri: str, name: str) -> None:
    compiled(tmp_path)  # skips where there is no compiler
    (tmp_path / "clock.c").write_text(LONG_AGO)
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "clock.c")], check=True)
    command = {
        "bookie": run_on(formatted, uri),
        "standalone": ("standalone", f"--data={tmp_path}/new", "--port=0"),
        "autorecovery": ("autorecovery", f"--metadata={uri}"),
    }[name]
    done = bookledger(*command, env={**os.environ, "LD_PRELOAD": str(library)})
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert (
        "this machine's clock shows 1970-01-02 00:00 UTC, which cannot be right: set it (`timedatectl" in last
    )


@pytest.fixture
def full_disk() -> Iterator[Path]:
    with small_disk("1m") as path:
        yield path


def test_a_disk_without_room_is_told(full_disk: Path, meta: str) -> None:
    (full_disk / "filler").write_bytes(b"x" * (1 << 20))
    line = fails_with_one_line("bookie", "format", f"--data={full_disk}/b1", "--id=b1", meta)
    assert "No space left on device" in line and line.endswith("; free some space on that disk")


def test_a_disk_that_is_nearly_full_is_told_with_what_to_do(
    formatted: Path, uri: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[bookie]\ndisk_free_share_min = 0.49\n")
    command = (f"--config={settings}", *run_on(formatted, uri), "--free-space-min=999999999")
    disk = shutil.disk_usage(formatted)
    if disk.free >= 0.97 * disk.total:
        pytest.skip("this disk is empty")
    line = first_line_of(*command)
    assert f"{formatted} is nearly full: " in line
    assert "the bookie becomes read-only (--free-space-min): free some space, or add bookies" in line
