"""Runbooks of docs/runbooks.md, in the trouble that each is for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes, started
from ledgers import LedgerClient, LedgerState, NoSuchLedger
from metadata import keys
from tests.docs.shell import Shell, sessions
from tests.integration.test_ipv6 import has_ipv6, on_ipv6
from tests.integration.test_lost_quorum_commands import give_up
from tests.integration.test_missing_cookie import lose, refusal_of_start
from tests.integration.test_salvaged_ledgers import append, away, cluster, confirmed_through, entries_in
from tests.support.cluster_status import status
from tests.support.command_line import bookledger, told
from tests.support.ledgers import crash
from tests.support.processes import serving
from tests.support.waiting import until

DOCUMENT = (Path(__file__).parents[2] / "docs" / "runbooks.md").read_text()

ON_IPV6 = {
    "--host 2001:db8::6 --insecure": f"--host {'::1' if has_ipv6() else '127.0.0.1'} --port 0 --free-space-min 64",
    "[2001:db8::6]:3181": "[::1]:…" if has_ipv6() else "127.0.0.1:…",
}
"""What the document says of a host's IPv6 address, on this machine."""


def runbook(title: str) -> list[tuple[str, str]]:
    """The commands of one runbook, each with what it says."""
    found = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found, title
    commands = sessions(found[1])
    assert commands, f"{title} has no commands"
    return commands


def follow(title: str, tmp_path: Path, uri: str, here: Mapping[str, str] | None = None) -> None:
    """Types what the runbook says; `here` says what stands for it on this machine. Each command has to succeed."""

    def on_this_machine(text: str) -> str:
        for there, ours in {"/srv/": f"{tmp_path}/srv-", **(here or {})}.items():
            text = text.replace(there, ours)
        return text

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Shell(tmp_path, {"PATH": path, "COLUMNS": "80", "BOOKLEDGER_METADATA": uri}) as shell:
        for command, said in runbook(title):
            shell.run(on_this_machine(command), on_this_machine(said))


def test_a_bookies_cookie_was_lost(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    host4 = BookieProcess("host4", tmp_path / "srv-host4", uri, lease_seconds=2)
    with bookie_processes(2, tmp_path, uri, lease_seconds=2), started([host4]):
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append(b"there")
        assert host4.stop() == 0
        lose(uri, keys.cookie("host4"))
        assert "bookledger bookie restore-cookie" in refusal_of_start(uri, host4)
        follow("A bookie's cookie was lost", tmp_path, uri)
        host4.start()
        until(lambda: status(uri)["whole"] is True)
        assert told("bookie", "info", f"--metadata={uri}", "host4")["state"] == "serving"


def test_a_decommissioned_bookie_is_alive(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    host4 = BookieProcess("host4", tmp_path / "srv-host4", uri, lease_seconds=2)
    with bookie_processes(2, tmp_path, uri, lease_seconds=2), started([host4]):
        give_up(uri, "host4")
        until(lambda: any("host4" in why for why in status(uri)["why_not_whole"]))
        follow("A decommissioned bookie is alive", tmp_path, uri)
        until(lambda: status(uri)["whole"] is True)


def test_a_quorum_of_a_ledger_is_lost_for_good(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as (uri, bookies):
        with LedgerClient(uri) as client:
            client.create_ledger().close()
            writer = client.create_ledger()
            assert writer.ledger_id == 2
            append(writer, *range(5))
            first, *others = [bookies[name] for name in sorted(bookies)]
            confirmed_through(client, writer, 4, first.bookie_id)
            crash(writer)
        away(uri, *others)
        done = bookledger("ledger", "recover", f"--metadata={uri}", "2")
        assert done.returncode == 1 and b"too few bookies could be fenced" in done.stderr
        follow("A quorum of a ledger is lost for good", tmp_path, uri)
        assert entries_in(tmp_path / "srv-ledger-2.json") == [(n, True) for n in range(5)]
        with LedgerClient(uri) as client:
            record = client.describe_ledger(2)
            assert (record.state, record.last_entry) == (LedgerState.CLOSED, 4)
            assert record.accepted_loss is not None
            assert [entry.entry_id for entry in client.open_ledger(2).read()] == list(range(5))


def test_entries_of_a_closed_ledger_are_lost(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as (uri, bookies):
        with LedgerClient(uri) as client:
            client.create_ledger().close()
            with client.create_ledger(write_quorum=1, ack_quorum=1) as writer:
                append(writer, *range(6))
        assert writer.ledger_id == 2
        away(uri, bookies[writer.record.fragments[0].ensemble[1].bookie_id])
        done = bookledger("ledger", "read", f"--metadata={uri}", "2")
        assert done.returncode == 1 and b"entry 1 of ledger 2 cannot be read" in done.stderr
        follow("Entries of a closed ledger are lost", tmp_path, uri)
        with LedgerClient(uri) as client:
            *_, copy = client.list_ledgers()
            found = [entry.payload for entry in client.open_ledger(copy.ledger_id).read()]
            assert found == [b"entry %d" % n for n in (0, 2, 3, 5)]
            with pytest.raises(NoSuchLedger):
                client.describe_ledger(2)


@on_ipv6
def test_the_hosts_have_ipv6_addresses(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri):
        follow("The hosts have IPv6 addresses", tmp_path, uri, ON_IPV6)


def test_appends_fail_with_not_enough_bookies(tmp_path: Path) -> None:
    with cluster(tmp_path, 3, lease_seconds=60) as (uri, bookies):
        lost = bookies["bookie-3"]
        lost.kill()
        append_to_three = ("ledger", "append", f"--metadata={uri}", "--ack-quorum=3")
        done = bookledger(*append_to_three, stdin=b"a\n")
        assert done.returncode == 1 and b"bookie-3" in done.stderr and b"refused" in done.stderr, done
        follow("Appends fail with `NotEnoughBookies`", tmp_path, uri)
        lost.start()
        done = bookledger(*append_to_three, stdin=b"a\n")
        assert done.returncode == 0, done


def test_tail_prints_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path, 3, lease_seconds=60) as (uri, bookies):
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append_batch([b"an entry"] * 1000)
        for bookie in bookies.values():
            bookie.kill()
        done = bookledger("ledger", "tail", f"--metadata={uri}", "1", "--first=990", "--outage-max=1")
        assert done.returncode == 1 and b"go on with --first 990" in done.stderr, done
        with serving(bookies.values()):
            follow("`tail -f` prints nothing", tmp_path, uri)


def test_a_program_runs_out_of_descriptors(tmp_path: Path) -> None:
    """Twenty clients that are kept take more than this program may have; twenty that are forgotten do not."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    program = (
        "import gc, resource; from bookledger import LedgerClient\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "kept = []\n"
        "for _ in range(20):\n"
        "    client = LedgerClient({uri!r}); list(client.list_ledgers()); {keep}\n"
        "    del client; gc.collect()\n"
        "print('all of them')\n"
    )

    def ran(keep: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", program.format(uri=uri, keep=keep)]
        return subprocess.run(command, capture_output=True, timeout=120, check=False)

    with bookie_processes(1, tmp_path, uri):
        done = ran("kept.append(client)")
        assert done.returncode != 0 and b"Too many open files" in done.stderr, done
        done = ran("pass")
        assert (done.returncode, done.stdout) == (0, b"all of them\n"), done
        follow("A program runs out of descriptors or threads", tmp_path, uri)
