"""`bookledger metadata`: a backup that is restored under real bookies deletes and shortens nothing by itself."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient, LedgerError, LedgerRecoveryFailed
from ledgers.errors import MetadataUnavailable
from metadata import open_store
from metadata.backup import hold
from tests.support.cluster_status import status
from tests.support.command_line import bookledger, fails_with_one_line, printed, told
from tests.support.ledgers import crash
from tests.support.processes import serving
from tests.support.waiting import until


def test_a_restored_backup_keeps_what_it_does_not_know_and_recovers_only_when_accepted(
    tmp_path: Path,
) -> None:
    old, new = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db"
    file = tmp_path / "backup"
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client:
            writer = client.create_ledger(ensemble_size=3, ack_quorum=2)
            writer.append(b"before")
            saved = told("metadata", "backup", str(file), f"--metadata={old}")
            assert saved["bytes"] == file.stat().st_size and saved["keys"] > 5
            again = fails_with_one_line("metadata", "backup", str(file), f"--metadata={old}")
            assert "already exists" in again
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
            crash(writer)
        for one in bookies:
            one.kill()
    restored = told("metadata", "restore", str(file), f"--metadata={new}")
    assert restored["restored"] and restored["keys"] == saved["keys"]
    again = fails_with_one_line("metadata", "restore", str(file), f"--metadata={new}")
    assert "already a cluster here" in again
    with started_again(tmp_path, new), LedgerClient(new) as client:
        with pytest.raises(LedgerRecoveryFailed, match="bookledger metadata check"):
            client.open_ledger(writer.ledger_id)
        with pytest.raises(MetadataUnavailable, match=f"whether ledger {newer.ledger_id} exists"):
            client.describe_ledger(newer.ledger_id)
        until(lambda: all(row["compared"] for row in check(new)))
        found = check(new)
        assert sum(row["unknown"]["ledgers"] for row in found) == 3
        assert sum(row["open_elsewhere"]["ledgers"] for row in found) == 1, "the one that came for the dead"
        assert not status(new)["whole"]
        for row in found:
            done = bookledger("bookie", "gc", "run", row["bookie_id"], f"--metadata={new}", "--json")
            assert json.loads(done.stdout)["held_back"], done
        assert (
            b"Accept it anyway"
            in bookledger("metadata", "check", "--accept", f"--metadata={new}", stdin=b"n\n").stderr
        )
        assert check(new), "it was not accepted"
        dry = bookledger("metadata", "check", "--accept", "--dry-run", f"--metadata={new}")
        assert b"1 ledgers that the metadata has lost are rebuilt, and 1 records" in dry.stdout
        assert check(new), "nor by that"
        done = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}")
        assert done.returncode == 0, done
        assert printed("metadata", "check", f"--metadata={new}") == [{"restored": False}]
        with client.open_ledger(newer.ledger_id) as reader:
            assert [entry.payload for entry in reader] == [b"newer than the backup"]
        with client.open_ledger(writer.ledger_id) as reader:
            assert [entry.payload for entry in reader] == [b"before", *(b"after %d" % n for n in range(20))]


def started_again(directory: Path, uri: str) -> AbstractContextManager[None]:
    """The same bookies, over other metadata."""
    return serving([BookieProcess(f"bookie-{n}", directory / f"bookie-{n}", uri) for n in range(1, 5)])


def test_what_was_moved_since_the_backup_is_found_again_and_not_dropped(tmp_path: Path) -> None:
    """Both bookies of the ledger were drained after it: the copies that the metadata names are gone."""
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", tmp_path / "backup"
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client:
            with client.create_ledger(ensemble_size=2) as writer:
                writer.append(b"moved")
            held = {one.bookie_id for one in client.describe_ledger(writer.ledger_id).fragments[0].ensemble}
            printed("metadata", "backup", str(file), f"--metadata={old}")
            for name in sorted(held):
                assert bookledger("bookie", "drain", name, "--wait", f"--metadata={old}").returncode == 0
            assert bookledger("bookie", "gc", "run", "--all", f"--metadata={old}").returncode == 0
            with client.create_ledger(ensemble_size=2) as other:
                other.append(b"of a later id")
        for one in bookies:
            one.stop()
    printed("metadata", "restore", str(file), f"--metadata={new}")
    with started_again(tmp_path, new), LedgerClient(new) as client:
        until(lambda: all(row["compared"] for row in check(new)))
        found = {row["bookie_id"]: row for row in check(new)}
        assert all(found[name]["lacking"]["ledgers"] == 1 for name in held)
        with pytest.raises(LedgerError, match="bookledger metadata check"):
            client.create_ledger(ensemble_size=2)  # its id may be one that bookies hold entries of
        assert bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}").returncode == 0
        assert bookledger("bookie", "gc", "run", "--all", f"--metadata={new}").returncode == 0
        until(lambda: status(new)["whole"])
        with client.open_ledger(writer.ledger_id) as reader:
            assert [entry.payload for entry in reader.read()] == [b"moved"]
        with client.create_ledger(ensemble_size=2) as fresh:
            assert fresh.ledger_id > other.ledger_id, "no id is given twice"


def test_bookies_formatted_after_the_backup_join_again_and_are_asked(tmp_path: Path) -> None:
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", tmp_path / "backup"
    with bookie_processes(1, tmp_path, old, lease_seconds=2, prefix="first"):
        printed("metadata", "backup", str(file), f"--metadata={old}")
        with (
            bookie_processes(4, tmp_path, old, lease_seconds=2),
            LedgerClient(old) as client,
            client.create_ledger(ensemble_size=4) as writer,
        ):
            writer.append(b"on them")
            held = {one.bookie_id for one in client.describe_ledger(1).fragments[0].ensemble}
    printed("metadata", "restore", str(file), f"--metadata={new}")
    with started_again(tmp_path, new):
        until(lambda: sum(row["compared"] for row in check(new)) == 4)
        unknown = {row["bookie_id"]: row["unknown"] for row in check(new)}
        assert len(unknown) == 5 and unknown["first-1"] is None
        assert all(unknown[name]["ledgers"] == 1 for name in held - {"first-1"})
        done = bookledger("metadata", "check", "--accept", f"--metadata={new}", stdin=b"n\n")
        assert b"first-1 have not compared" in done.stderr


@pytest.mark.long
def test_a_disk_that_was_replaced_after_the_backup_joins_again_and_nothing_is_adopted_before_it_is_accepted(
    tmp_path: Path,
) -> None:
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", tmp_path / "backup"
    with bookie_processes(4, tmp_path, old, lease_seconds=2) as bookies:
        with LedgerClient(old) as client, client.create_ledger(ensemble_size=3) as writer:
            writer.append(b"kept")
        printed("metadata", "backup", str(file), f"--metadata={old}")
        replaced = bookies[0]
        replaced.kill()
        shutil.rmtree(replaced.directory)
        anew = ("--replace", "--wait", f"--id={replaced.bookie_id}", f"--data={replaced.directory}")
        assert bookledger("bookie", "format", f"--metadata={old}", *anew).returncode == 0
        replaced.start()
    printed("metadata", "restore", str(file), f"--metadata={new}")
    with started_again(tmp_path, new), LedgerClient(new) as client:
        until(lambda: all(row["compared"] for row in check(new)))
        done = bookledger("bookie", "repair", "bookie-2", "--adopt=bookie-9", f"--metadata={new}")
        assert done.returncode == 1 and b"bookledger metadata check" in done.stderr
        assert bookledger("metadata", "check", "--accept", "--yes", f"--metadata={new}").returncode == 0
        until(lambda: status(new)["whole"])
        with client.open_ledger(writer.ledger_id) as reader:
            assert [entry.payload for entry in reader.read()] == [b"kept"]


def test_an_open_ledger_that_was_deleted_after_the_backup_does_not_fit(tmp_path: Path) -> None:
    """It would come back as one without an entry."""
    old, new, file = f"sqlite://{tmp_path}/old.db", f"sqlite://{tmp_path}/new.db", tmp_path / "backup"
    with bookie_processes(4, tmp_path, old, lease_seconds=2), LedgerClient(old) as client:
        writer = client.create_ledger(ensemble_size=3)
        writer.append(b"deleted later")
        held = {one.bookie_id for one in writer.record.fragments[0].ensemble}
        printed("metadata", "backup", str(file), f"--metadata={old}")
        writer.close()
        client.delete_ledger(writer.ledger_id)
        assert bookledger("bookie", "gc", "run", "--all", f"--metadata={old}").returncode == 0
    printed("metadata", "restore", str(file), f"--metadata={new}")
    with started_again(tmp_path, new):
        until(lambda: all(row["compared"] for row in check(new)))
        lacking = {row["bookie_id"]: row["lacking"]["ledgers"] for row in check(new)}
        assert {name for name, count in lacking.items() if count} == held
        assert bookledger("metadata", "check", f"--metadata={new}").returncode == 1


async def test_nobody_makes_a_cluster_of_half_a_backup(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = await open_store(uri, create=True)
    await hold.begin(store, backup_ms=1, now_ms=2)
    await store.close()
    line = fails_with_one_line("bookie", "format", f"--metadata={uri}", f"--data={tmp_path}/b", "--id=b")
    assert "a backup was being restored here" in line


def check(uri: str) -> list[dict[str, Any]]:
    """What each bookie has compared."""
    done = bookledger("metadata", "check", f"--metadata={uri}", "--json")
    return [row for row in map(json.loads, done.stdout.splitlines()) if "bookie_id" in row]
