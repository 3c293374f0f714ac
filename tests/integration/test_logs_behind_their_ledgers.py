"""Logs of metadata that went back: accepting it brings them up to what bookies hold, and no writer comes before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient
from ledgers.errors import MetadataWentBack
from tests.integration.test_metadata_backup import started_again
from tests.integration.test_metadata_rebuilt import edits
from tests.qjm_compat.transfer.made_directories import finalized, version
from tests.support.command_line import bookledger, printed
from tests.support.processes import serving
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
            client.log("orders").fork("fork", at=150)
            written(client, "fork", 150, 10)
            written(client, "orders", 200, 100)
            client.create_log("new")
            written(client, "new", 0, 50)
            with client.log_set("sales", 2).writer() as of_set:
                for n in range(20):
                    of_set.append(b"%d" % n, key=b"%d" % n)
        imported(old, tmp_path)
        before = edits(old)
        for one in bookies:
            one.kill()
    printed("metadata", "restore", file, f"--metadata={new}")
    with started_again(tmp_path, new), LedgerClient(new) as client:
        with pytest.raises(MetadataWentBack, match="metadata check"):
            client.log("orders").writer()
        until(lambda: "orders" in str(_behind(new)) and "new" in str(_behind(new)))
        done = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}")
        assert done.returncode == 0, done
        for name, count in (("orders", 300), ("new", 50), ("fork", 160)):
            assert [one.payload for one in client.log(name).read()] == [b"%d" % n for n in range(count)]
            written(client, name, count, 5)
        assert edits(new) == before
        with client.log_set("sales").writer() as of_set:
            of_set.append(b"20", key=b"20")
        assert len(list(client.log("sales.0").read())) + len(list(client.log("sales.1").read())) == 21
        assert printed("metadata", "check", f"--metadata={new}") == [{"restored": False}]
        client.delete_log("orders")  # what the fork has stays
        assert [one.payload for one in client.log("fork").read()] == [b"%d" % n for n in range(165)]


def imported(uri: str, path: Path) -> None:
    (path / "current").mkdir()
    version(path / "current")
    for first in (1, 4, 7):
        finalized(path / "current", first, first + 2)
    assert bookledger("journal", "import", "ns1", str(path / "current"), f"--metadata={uri}").returncode == 0


def test_a_bookie_that_comes_back_later_and_knows_more_of_a_log_holds_the_cluster_back(
    tmp_path: Path,
) -> None:
    """A record that only it had: before, the next writer gave its position again."""
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", str(tmp_path / "backup")
    with bookie_processes(3, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client:
            client.create_log("orders", ensemble_size=1)
            written(client, "orders", 0, 5)
            printed("metadata", "backup", file, f"--metadata={old}")
            written(client, "orders", 5, 5)
            segments = client.log("orders").record.segments
            (late,) = client.describe_ledger(segments[-1].ledger_id).fragments[0].ensemble
        for one in bookies:
            one.stop()
    printed("metadata", "restore", file, f"--metadata={new}")
    again = [BookieProcess(f"bookie-{n}", tmp_path / f"bookie-{n}", new) for n in range(1, 4)]
    there = [one for one in again if one.bookie_id != late.bookie_id]
    (away,) = [one for one in again if one.bookie_id == late.bookie_id]
    with serving(there), LedgerClient(new) as client:
        until(lambda: have_compared(new, [one.bookie_id for one in there]))
        bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}")
        with serving([away]):
            with pytest.raises(MetadataWentBack, match="metadata check"):
                client.log("orders").writer()
            until(lambda: b"log orders" in _behind(new))
            printed("metadata", "check", "--accept", "--yes", f"--metadata={new}")
            assert [one.payload for one in client.log("orders").read()] == [b"%d" % n for n in range(10)]
            written(client, "orders", 10, 1)


def have_compared(uri: str, names: list[str]) -> bool:
    rows = [json.loads(line) for line in _behind(uri).splitlines()]
    return all(row["compared"] for row in rows if row.get("bookie_id") in names) and len(rows) > len(names)


def _behind(uri: str) -> bytes:
    return bookledger("metadata", "check", "--json", f"--metadata={uri}").stdout
