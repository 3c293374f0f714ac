"""`bookledger metadata`: a backup that is restored under real bookies deletes and shortens nothing by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient, LedgerRecoveryFailed
from ledgers.errors import NoSuchLedger
from tests.support.command_line import bookledger, fails_with_one_line
from tests.support.waiting import until


def printed(*arguments: str) -> list[dict[str, Any]]:
    done = bookledger(*arguments, "--json")
    assert done.stderr == b"", done
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_restored_backup_keeps_what_it_does_not_know_and_recovers_only_when_accepted(
    tmp_path: Path,
) -> None:
    old, new = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db"
    file = tmp_path / "backup"
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client:
            writer = client.create_ledger(ensemble_size=3, ack_quorum=2)
            writer.append(b"before")
            (saved,) = printed("metadata", "backup", str(file), f"--metadata={old}")
            assert saved["bytes"] == file.stat().st_size and saved["keys"] > 5
            again = fails_with_one_line("metadata", "backup", str(file), f"--metadata={old}")
            assert "exists already" in again
            # A bookie is replaced since: of what follows, the backup places a copy where there is none.
            in_use = {
                one.bookie_id for one in client.describe_ledger(writer.ledger_id).fragments[-1].ensemble
            }
            by_name = {one.bookie_id: one for one in bookies}
            by_name[sorted(in_use)[0]].kill()
            for n in range(20):
                writer.append(b"after %d" % n)
            with client.create_ledger(ensemble_size=3, ack_quorum=2) as newer:
                newer.append(b"newer than the backup")
        for one in bookies:
            one.kill()
    (restored,) = printed("metadata", "restore", str(file), f"--metadata={new}")
    assert restored["restored"] and restored["keys"] == saved["keys"]
    again = fails_with_one_line("metadata", "restore", str(file), f"--metadata={new}")
    assert "a cluster here already" in again
    with started_again(tmp_path, new), LedgerClient(new) as client:
        with pytest.raises(LedgerRecoveryFailed, match="bookledger metadata check"):
            client.open_ledger(writer.ledger_id)
        with pytest.raises(NoSuchLedger):
            client.describe_ledger(newer.ledger_id)
        until(lambda: all(row["compared"] for row in check(new)))
        found = check(new)
        assert sum(row["unknown"]["ledgers"] for row in found) == 3
        assert sum(row["open_elsewhere"]["ledgers"] for row in found) == 1, "the one that came for the dead"
        assert not printed("cluster", "status", f"--metadata={new}")[0]["whole"]
        for row in found:
            done = bookledger("bookie", "gc", "run", row["bookie_id"], f"--metadata={new}", "--json")
            assert json.loads(done.stdout)["held_back"], done
        assert (
            b"Accept it all the same"
            in bookledger("metadata", "check", "--accept", f"--metadata={new}", stdin=b"n\n").stderr
        )
        assert check(new), "it was not accepted"
        done = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}")
        assert done.returncode == 0, done
        assert printed("metadata", "check", f"--metadata={new}") == [{"restored": False}]
        with client.open_ledger(writer.ledger_id) as reader:
            assert [entry.payload for entry in reader.read(0, reader.last_add_confirmed)][:1] == [b"before"]


@contextmanager
def started_again(directory: Path, uri: str) -> Iterator[None]:
    """The same bookies, over other metadata."""
    bookies = [BookieProcess(f"bookie-{n}", directory / f"bookie-{n}", uri) for n in range(1, 5)]
    try:
        for bookie in bookies:
            bookie.launch()
        for bookie in bookies:
            bookie.await_ready()
        yield
    finally:
        for bookie in bookies:
            bookie.stop()


def check(uri: str) -> list[dict[str, Any]]:
    return printed("metadata", "check", f"--metadata={uri}")
