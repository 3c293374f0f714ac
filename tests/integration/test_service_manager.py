"""What a bookie tells a service manager such as systemd: over a real socket, from a real process."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bookledger.admin import systemd
from bookledger.cli.processes import BookieProcess, started
from ledgers import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.failing_disk import LOG, Call, FailingDisk, compiled
from tests.support.waiting import until

PERIOD_SECONDS = 0.6


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(20)
        yield sock


def bookie_under(tmp_path: Path, socket_name: str, bookie_id: str = "b1") -> BookieProcess:
    environment = {"NOTIFY_SOCKET": socket_name, "WATCHDOG_USEC": str(int(PERIOD_SECONDS * 1e6))}
    return BookieProcess(
        bookie_id, tmp_path / bookie_id, uri_of(tmp_path / "metadata.db"), environment=environment
    )


def heard(sock: socket.socket, wanted: str) -> list[str]:
    """All that is said up to what is wanted."""
    found: list[str] = []
    while wanted not in found:
        found.append(sock.recv(100).decode())
    return found


@pytest.mark.parametrize("is_abstract", [False, True], ids=["a path", "an abstract name"])
def test_a_bookie_says_when_it_serves_that_it_lives_and_when_it_ends(
    tmp_path: Path, *, is_abstract: bool
) -> None:
    name = f"bookledger-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with manager(f"\0{name}" if is_abstract else name) as sock:
        bookie = bookie_under(tmp_path, f"@{name}" if is_abstract else name)
        with started([bookie]):
            assert systemd.STOPPING not in heard(sock, systemd.READY)
            for _ in range(systemd.NOTIFICATIONS_PER_PERIOD * 2):
                assert heard(sock, systemd.ALIVE) == [systemd.ALIVE]
        assert set(heard(sock, systemd.STOPPING)) <= {systemd.ALIVE, systemd.STOPPING}


def test_a_bookie_that_hangs_gives_no_sign_of_life_and_goes_on_with_them(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with manager(name) as sock:
        bookie = bookie_under(tmp_path, name)
        with started([bookie]):
            heard(sock, systemd.READY)
            os.kill(bookie.child.pid, signal.SIGSTOP)
            sock.settimeout(PERIOD_SECONDS)
            with pytest.raises(TimeoutError):
                while True:  # what was said before it was stopped
                    sock.recv(100)
            os.kill(bookie.child.pid, signal.SIGCONT)
            sock.settimeout(20)
            heard(sock, systemd.ALIVE)


def test_a_bookie_whose_disk_hangs_gives_no_sign_of_life_until_it_moves_again(tmp_path: Path) -> None:
    """Its event loop turns, and nobody can append."""
    disk = FailingDisk(compiled(tmp_path), tmp_path)
    name = str(tmp_path / "notify")
    with manager(name) as sock:
        bookie = bookie_under(tmp_path, name)
        bookie.environment = {**(bookie.environment or {}), **disk.environment}
        with started([bookie]), LedgerClient(uri_of(tmp_path / "metadata.db")) as client:
            heard(sock, systemd.READY)
            writer = client.create_ledger(ensemble_size=1)
            writer.append(b"x")
            heard(sock, systemd.ALIVE)
            disk.fail(Call.HANG, LOG)
            late = writer.append_async(b"y")
            until(lambda: "the service manager is not notified" in bookie.log.read_text())
            sock.settimeout(2 * PERIOD_SECONDS)
            with pytest.raises(TimeoutError):
                while True:  # what was said before it hung
                    sock.recv(100)
            disk.fail(Call.READ, "no/such/file")
            sock.settimeout(20)
            heard(sock, systemd.ALIVE)
            assert late.result() == 1
            writer.close()


def test_a_manager_that_is_not_there_or_does_not_listen_stops_nobody(tmp_path: Path) -> None:
    with started([bookie_under(tmp_path, str(tmp_path / "nobody"), "b2")]):
        pass
    name = str(tmp_path / "deaf")
    with manager(name):  # nothing is taken from it, and the kernel's queue is soon full
        bookie = bookie_under(tmp_path, name)
        with started([bookie]):
            time.sleep(PERIOD_SECONDS)
        assert bookie.log.read_text().count("Traceback") == 0


def test_signs_of_life_of_another_process_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    assert systemd._period_seconds() == 1.0
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert systemd._period_seconds() == 1.0
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert systemd._period_seconds() == 0.0
    monkeypatch.setenv("WATCHDOG_USEC", "soon")
    assert systemd._period_seconds() == 0.0
