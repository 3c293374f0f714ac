"""Logs of metadata that went back: accepting it brings them up to what bookies hold, and no writer comes before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from ledgers.errors import MetadataWentBack
from tests.integration.test_metadata_backup import started_again
from tests.support.command_line import bookledger, printed
from tests.support.waiting import until


def written(client: LedgerClient, name: str, first: int, count: int) -> None:
    with client.log(name).writer() as writer:
        for n in range(first, first + count):
            assert writer.append(b"%d" % n) == n


def test_what_was_written_after_the_backup_is_in_the_log_again(tmp_path: Path) -> None:
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", str(tmp_path / "backup")
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client:
            client.create_log("orders", roll_records=60)
            written(client, "orders", 0, 100)
            printed("metadata", "backup", file, f"--metadata={old}")
            written(client, "orders", 100, 100)
            written(client, "orders", 200, 100)
            client.create_log("new")
            written(client, "new", 0, 50)
        for one in bookies:
            one.kill()
    printed("metadata", "restore", file, f"--metadata={new}")
    with started_again(tmp_path, new), LedgerClient(new) as client:
        with pytest.raises(MetadataWentBack, match="metadata check"):
            client.log("orders").writer()
        until(lambda: "orders" in str(_behind(new)) and "new" in str(_behind(new)))
        done = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}")
        assert done.returncode == 0, done
        for name, count in (("orders", 300), ("new", 50)):
            assert [one.payload for one in client.log(name).read()] == [b"%d" % n for n in range(count)]
            written(client, name, count, 5)
        assert printed("metadata", "check", f"--metadata={new}") == [{"restored": False}]


def _behind(uri: str) -> bytes:
    return bookledger("metadata", "check", "--json", f"--metadata={uri}").stdout
