"""Runbooks of docs/operators.md, in the trouble that each is for."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from bookledger.cli.processes import BookieProcess, bookie_processes, started
from ledgers import LedgerClient
from metadata import keys
from tests.docs.shell import PROMPT, Shell
from tests.integration.test_missing_cookie import lose, refusal_of_start
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
