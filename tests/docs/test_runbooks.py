"""Runbooks of docs/operators.md, in the trouble that each is for."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes, started
from ledgers import LedgerClient, LedgerState, NoSuchLedger
from metadata import keys
from tests.docs.shell import PROMPT, Shell
from tests.integration.test_lost_quorum_commands import give_up
from tests.integration.test_missing_cookie import lose, refusal_of_start
from tests.integration.test_salvaged_ledgers import append, away, cluster, confirmed_through, entries_in
from tests.support.cluster_status import status
from tests.support.command_line import bookledger
from tests.support.waiting import until

DOCUMENT = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()


def runbook(title: str) -> list[tuple[str, str]]:
    """The commands of one runbook, each with what it says."""
    found = re.search(rf"^\*\*{re.escape(title)}\*\*(.*?)(?=^\*\*|^## )", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found, title
    blocks = re.findall(r"^```console\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in f"\n{block}".split(f"\n{PROMPT}")[1:]]
    assert parts, f"{title} has no commands"
    return [(command, said.strip()) for command, _, said in (part.partition("\n") for part in parts)]


def follow(title: str, tmp_path: Path, uri: str) -> None:
    """Types what the runbook says, on this machine. Each command has to succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Shell(tmp_path, {"PATH": path, "COLUMNS": "80", "BOOKLEDGER_METADATA": uri}) as shell:
        for command, said in runbook(title):
            shell.run(command.replace("/srv/", f"{tmp_path}/srv-"), said)


def test_a_bookies_cookie_was_lost(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    host4 = BookieProcess("host4", tmp_path / "srv-host4", uri, lease_seconds=2)
    with bookie_processes(2, tmp_path, uri, lease_seconds=2), started([host4]):
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            writer.append(b"there")
        assert host4.stop() == 0
        lose(uri, keys.cookie("host4"))
        assert "bookledger bookie restore-cookie" in refusal_of_start(uri, host4)
        follow("A bookie's cookie was lost.", tmp_path, uri)
        host4.start()
        until(lambda: status(uri)["whole"] is True)
        row = json.loads(bookledger("bookie", "info", f"--metadata={uri}", "--json", "host4").stdout)
        assert row["state"] == "serving"


def test_a_bookie_lives_and_is_given_up(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    host4 = BookieProcess("host4", tmp_path / "srv-host4", uri, lease_seconds=2)
    with bookie_processes(2, tmp_path, uri, lease_seconds=2), started([host4]):
        give_up(uri, "host4")
        until(lambda: any("host4" in why for why in status(uri)["why_not_whole"]))
        follow("A bookie lives, and is given up.", tmp_path, uri)
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
        away(uri, *others)
        done = bookledger("ledger", "recover", f"--metadata={uri}", "2")
        assert done.returncode == 1 and b"too few bookies could be fenced" in done.stderr
        follow("A quorum of a ledger is lost for good.", tmp_path, uri)
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
        follow("Entries of a closed ledger are lost.", tmp_path, uri)
        with LedgerClient(uri) as client:
            *_, copy = client.list_ledgers()
            found = [entry.payload for entry in client.open_ledger(copy.ledger_id).read()]
            assert found == [b"entry %d" % n for n in (0, 2, 3, 5)]
            with pytest.raises(NoSuchLedger):
                client.describe_ledger(2)
