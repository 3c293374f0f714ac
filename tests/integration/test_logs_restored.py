"""Logs in backups of the metadata, and in its check."""

from __future__ import annotations

import json
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from metadata import opened_store
from metadata.records.ledger_store import LedgerStore
from tests.integration.test_metadata_backup import started_again
from tests.support.aio import run
from tests.support.command_line import bookledger, printed


def test_a_restored_log_is_read_as_it_was_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    old, new = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db"
    file = str(tmp_path / "backup")
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client, client.create_log("orders", roll_records=10).writer() as writer:
            for n in range(25):
                writer.append(b"%d" % n)
        printed("metadata", "backup", file, f"--metadata={old}")
        for one in bookies:
            one.kill()
    printed("metadata", "restore", file, f"--metadata={new}")
    with started_again(tmp_path, new), LedgerClient(new) as client:
        log = client.log("orders")
        assert [record.payload for record in log.read()] == [b"%d" % n for n in range(25)]
        assert bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}").returncode == 0
        with log.writer() as writer:
            assert writer.append(b"on") == 25
        assert printed("metadata", "check", f"--metadata={new}") == [{"restored": False}]


def test_a_segment_whose_ledger_is_gone_does_not_pass_the_check(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri), LedgerClient(uri) as client:
        log = client.create_log("orders")
        for payload in (b"a", b"b"):
            with log.writer() as writer:
                writer.append(payload)
        first, _ = log.segments()
        assert bookledger("metadata", "check", f"--metadata={uri}").returncode == 0
        run(_deleted_by_hand(uri, first.ledger_id))
        done = bookledger("metadata", "check", "--json", f"--metadata={uri}")
        assert (done.returncode, done.stderr) == (1, b"")
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {"restored": False},
            {
                "log": "orders",
                "first_position": 0,
                "end_position": 1,
                "ledger_id": first.ledger_id,
                "broken": "the ledger does not exist, or belongs to another log",
            },
        ]
        log.truncate(1)
        assert bookledger("metadata", "check", f"--metadata={uri}").returncode == 0
        assert [record.payload for record in log.read()] == [b"b"]


async def _deleted_by_hand(uri: str, ledger_id: int) -> None:
    async with opened_store(uri) as store:
        found = await LedgerStore(store).read(ledger_id)
        assert found is not None
        await LedgerStore(store).delete(found)
