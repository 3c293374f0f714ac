"""`ledger tail` and `journal tail -f` wait through outages that writers survive, say so, and go on where they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, MetadataUnavailable
from tests.qjm_compat.transfer.made_directories import finalized, version
from tests.support.command_line import bookledger
from tests.support.etcd import EtcdServer
from tests.support.waiting import until


class Tailing:
    """A command that follows, and what it has printed."""

    def __init__(self, tmp_path: Path, *arguments: str) -> None:
        self._out, self._err = tmp_path / "out", tmp_path / "err"
        settings = tmp_path / "bookledger.toml"
        settings.write_text("[client]\nread_seconds_max = 2.0\n")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [sys.executable, "-m", "bookledger", f"--config={settings}", *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        return self._err.read_text()


@contextmanager
def tailing(tmp_path: Path, *arguments: str) -> Iterator[Tailing]:
    one = Tailing(tmp_path, *arguments)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("what", ["ledger", "log"])
def test_it_is_followed_through_outages_of_metadata_and_bookies(
    tmp_path: Path, own_etcd: EtcdServer, what: str
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/test?timeout=2"
    with (
        bookie_processes(3, tmp_path, uri, lease_seconds=60) as bookies,
        LedgerClient(uri) as client,
        client.create_ledger() if what == "ledger" else client.create_log("orders").writer() as writer,
    ):
        writer.append(b"before")
        name = "1" if what == "ledger" else "orders"
        with tailing(tmp_path, what, "tail", name, f"--metadata={uri}") as tail:
            until(lambda: tail.lines == ["0\tbefore"])
            own_etcd.kill()
            with pytest.raises(MetadataUnavailable):
                client.open_ledger(1, recovery=False)
            writer.append(b"between")
            until(lambda: tail.lines == ["0\tbefore", "1\tbetween"])
            own_etcd.restart()
            for bookie in bookies:
                os.kill(bookie.child.pid, signal.SIGSTOP)
            until(lambda: "waiting for at most 600 s" in tail.said)
            for bookie in bookies:
                os.kill(bookie.child.pid, signal.SIGCONT)
            writer.append(b"after")
            until(lambda: tail.lines == ["0\tbefore", "1\tbetween", "2\tafter"])
            until(lambda: "it goes on" in tail.said)  # on the other stream


def test_a_journal_is_followed_through_an_outage_of_its_metadata(
    tmp_path: Path, own_etcd: EtcdServer
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/test?timeout=2"
    meta, edits = f"--metadata={uri}", tmp_path / "current"
    edits.mkdir()
    version(edits)
    finalized(edits, 1, 3)
    with bookie_processes(3, tmp_path, uri, lease_seconds=60):
        assert bookledger("journal", "import", meta, "ns1", str(edits)).returncode == 0
        with tailing(tmp_path, "journal", "tail", "-f", meta, "ns1") as tail:
            until(lambda: len(tail.lines) == 3)
            own_etcd.kill()
            until(lambda: "waiting for at most 600 s" in tail.said)
            assert "too few acceptors succeeded" not in tail.said and "QuorumException" not in tail.said
            own_etcd.restart()
            finalized(edits, 4, 6)
            assert bookledger("journal", "import", meta, "ns1", str(edits)).returncode == 0
            until(lambda: len(tail.lines) == 6)
            until(lambda: "it goes on" in tail.said)  # on the other stream


def test_tails_over_a_store_that_went_back_say_so_and_end(tmp_path: Path, own_etcd: EtcdServer) -> None:
    """Of a ledger, a log and a journal that it lost, and of a ledger that it has, of which nothing comes any more."""
    uri = f"etcd://{own_etcd.endpoint}/test?timeout=2"
    meta, edits = f"--metadata={uri}", tmp_path / "current"
    edits.mkdir()
    version(edits)
    finalized(edits, 1, 3)
    with bookie_processes(3, tmp_path, uri, lease_seconds=2), LedgerClient(uri) as client:
        kept = client.create_ledger()
        kept.append(b"kept")
        own_etcd.set_aside(tmp_path / "copy")
        lost = client.create_ledger()
        lost.append(b"lost")
        with client.create_log("orders").writer() as writer:
            writer.append(b"lost")
        assert bookledger("journal", "import", meta, "ns1", str(edits)).returncode == 0
        followed = {
            "kept": (("ledger", "tail", meta, str(kept.ledger_id)), 1, "--first 1"),
            "lost": (("ledger", "tail", meta, str(lost.ledger_id)), 1, "--first 1"),
            "log": (("log", "tail", meta, "orders"), 1, "--first 1"),
            "journal": (("journal", "tail", "-f", meta, "ns1"), 3, "--from 4"),
        }
        with ExitStack() as stack:
            tails = {}
            for name, (command, *_) in followed.items():
                (tmp_path / name).mkdir()
                tails[name] = stack.enter_context(tailing(tmp_path / name, *command))
            for name, (_, lines, _) in followed.items():
                until(lambda: len(tails[name].lines) == lines)  # noqa: B023
            own_etcd.go_back(tmp_path / "copy")
            for name, (*_, how) in followed.items():
                assert tails[name].process.wait(120) == 1
                last = tails[name].said.splitlines()[-1]
                assert "until an operator accepts it" in last and f"go on with {how}" in last, (name, last)
