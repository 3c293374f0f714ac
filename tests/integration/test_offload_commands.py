"""Ledgers in object stores by command, with processes that are killed and metadata that goes back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, LedgerRecord
from tests.integration.test_metadata_rollback import (
    has_been_compared,
    is_held_back,
    renewals,
    sqlite_in,
    stores,
)
from tests.integration.test_offload import objects
from tests.integration.test_offloader import made
from tests.support.cluster_status import status
from tests.support.command_line import bookledger, told
from tests.support.waiting import until

ENTRIES = 64
ENTRY = bytes(range(256)) * 4096


def written(client: LedgerClient) -> int:
    with client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
        for n in range(ENTRIES):
            writer.append(b"%d " % n + ENTRY)
    return writer.ledger_id


def read(client: LedgerClient, ledger_id: int) -> list[bytes]:
    return [one.payload[:3].split()[0] for one in client.open_ledger(ledger_id)]


def frames_dropped(bookie_id: str, meta: str) -> int:
    """Of a collection, once the bookie is registered: on a busy machine it may lose its lease for a moment."""
    told_of: list[int] = []

    def is_done() -> bool:
        done = bookledger("bookie", "gc", "run", bookie_id, meta, "--json")
        if done.returncode == 0:
            told_of.append(json.loads(done.stdout)["frames_dropped"])
        return bool(told_of)

    until(is_done)
    return told_of[0]


def all_renew(uri: str) -> None:
    """Every bookie renews its key once more: it notices a store that does not know of that."""
    before: dict[str, int] = {}
    until(lambda: len(before.update(renewals(uri)) or before) == 3)
    until(lambda: all(renewals(uri).get(name, 0) > times for name, times in before.items()))


def test_a_ledger_goes_to_an_object_store_and_comes_back(tmp_path: Path) -> None:
    uri, archive = f"sqlite://{tmp_path}/metadata.db", made(tmp_path)
    meta, cold = f"--metadata={uri}", f"--cold=file://{archive}"
    with bookie_processes(3, tmp_path, uri) as bookies, LedgerClient(uri) as client:
        ledger_id = str(written(client))
        kept = told("ledger", "offload", meta, ledger_id, cold, "--keep")
        assert kept["cold"]["on_bookies"] and len(objects(archive)) == len(kept["cold"]["objects"]) == 1
        assert bookledger("metadata", "check", meta).returncode == 0
        done = told("ledger", "offload", meta, ledger_id, cold)
        assert bookledger("metadata", "check", meta).returncode == 0, "bookies have dropped nothing yet"
        assert (
            not done["cold"]["on_bookies"]
            and done["cold"]["object_bytes"] == objects(archive)[0].stat().st_size
        )
        for bookie in bookies:
            assert frames_dropped(bookie.bookie_id, meta) > 0
        assert bookledger("metadata", "check", meta).returncode == 0
        assert read(client, int(ledger_id)) == [b"%d" % n for n in range(ENTRIES)]
        shown = bookledger("ledger", "show", meta, ledger_id)
        assert b"from entry 0: in the object store only" in shown.stdout
        assert bookledger("ledger", "check", meta, ledger_id).returncode == 0
        verified = told("ledger", "check", meta, ledger_id, "--cold")
        assert verified["verified_entries"] == ENTRIES and verified["cold"] == done["cold"]
        until(lambda: bool(status(uri)["whole"]))
        back = told("ledger", "recall", meta, ledger_id, "--timeout=60")
        assert "cold" not in back and objects(archive) == []
        assert bookledger("metadata", "check", meta).returncode == 0, "bookies noted the copy, which is gone"
        assert bookledger("ledger", "check", meta, ledger_id).returncode == 0
        assert read(client, int(ledger_id)) == [b"%d" % n for n in range(ENTRIES)]
        wrong = bookledger("ledger", "offload", meta, ledger_id, "--cold=s3://me:secret@bucket")
        assert (
            wrong.returncode == 2
            and b"must not contain credentials" in wrong.stderr
            and b"secret" not in wrong.stderr
        )


def is_named(record: LedgerRecord, archive: Path) -> bool:
    return record.cold is not None


def is_being_uploaded(_: LedgerRecord, archive: Path) -> bool:
    return bool(objects(archive))


@pytest.mark.parametrize("step", [is_named, is_being_uploaded])
def test_whoever_is_killed_while_it_copies_leaves_the_bookies_all_they_had(tmp_path: Path, step: Any) -> None:
    uri, archive = f"sqlite://{tmp_path}/metadata.db", made(tmp_path)
    meta, cold = f"--metadata={uri}", f"--cold=file://{archive}"
    with bookie_processes(3, tmp_path, uri), LedgerClient(uri) as client:
        ledger_id = written(client)
        command = [sys.executable, "-m", "bookledger", "ledger", "offload", meta, str(ledger_id), cold]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as copying:
            until(lambda: step(client.describe_ledger(ledger_id), archive))
            copying.send_signal(signal.SIGKILL)
        record = client.describe_ledger(ledger_id)
        assert record.is_in_object_store or all(one.ensemble for one in record.fragments)
        assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]
        if not record.is_in_object_store:
            refused = bookledger("ledger", "offload", meta, str(ledger_id), cold)
            assert refused.returncode == 1 and b"another program has been copying it since" in refused.stderr
            assert "cold" not in told("ledger", "recall", meta, str(ledger_id))
        done = told("ledger", "offload", meta, str(ledger_id), cold)
        assert not done["cold"]["on_bookies"]
        assert [one for one in objects(archive) if "#" not in one.name] == [
            archive / done["cold"]["objects"][0]
        ]
        assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]


@stores
def test_metadata_that_went_back_to_before_the_copy_is_told_of_it_by_bookies(
    tmp_path: Path, store: Any
) -> None:
    with store(tmp_path) as metadata, bookie_processes(3, tmp_path, metadata.uri, lease_seconds=2) as bookies:
        meta, cold = f"--metadata={metadata.uri}", f"--cold=file://{made(tmp_path)}"
        with LedgerClient(metadata.uri) as client:
            ledger_id = written(client)
            metadata.save()
            all_renew(metadata.uri)  # etcd was stopped for it, maybe for longer than a lease
            told("ledger", "offload", meta, str(ledger_id), cold)
            for bookie in bookies:
                assert frames_dropped(bookie.bookie_id, meta) > 0
            written(client)  # what a bookie that lives notices is missing
        all_renew(metadata.uri)
        metadata.go_back()
        until(lambda: is_held_back(metadata.uri))
        until(lambda: has_been_compared(metadata.uri, bookies))
        done = bookledger("metadata", "check", "--accept", "--yes", meta)
        assert done.returncode == 0, done
        with LedgerClient(metadata.uri) as client:
            assert client.describe_ledger(ledger_id).is_in_object_store
            assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]


def test_a_ledger_that_was_recalled_after_the_copy_of_the_metadata_is_not_dropped(tmp_path: Path) -> None:
    """By the older record it is in the object store only, where it was deleted meanwhile."""
    with (
        sqlite_in(tmp_path) as metadata,
        bookie_processes(3, tmp_path, metadata.uri, lease_seconds=2) as bookies,
    ):
        meta, cold = f"--metadata={metadata.uri}", f"--cold=file://{made(tmp_path)}"
        with LedgerClient(metadata.uri) as client:
            ledger_id = written(client)
            told("ledger", "offload", meta, str(ledger_id), cold)
            for bookie in bookies:
                assert frames_dropped(bookie.bookie_id, meta) > 0
            metadata.save()
            all_renew(metadata.uri)
            told("ledger", "recall", meta, str(ledger_id))
            assert objects(tmp_path / "archive") == []
            written(client)
        all_renew(metadata.uri)
        metadata.go_back()
        until(lambda: is_held_back(metadata.uri))
        until(lambda: has_been_compared(metadata.uri, bookies))
        done = bookledger("metadata", "check", "--accept", "--yes", meta)
        assert done.returncode == 0, done
        for bookie in bookies:
            frames_dropped(bookie.bookie_id, meta)
        with LedgerClient(metadata.uri) as client:
            assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]
            until(lambda: not any(one.lacking for one in client.describe_ledger(ledger_id).fragments))
            assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]


def test_metadata_that_is_lost_is_made_again_from_the_objects_alone(tmp_path: Path) -> None:
    """By a bookie that never had anything of the ledger."""
    archive = made(tmp_path)
    lost, again = f"sqlite://{tmp_path}/lost.db", f"sqlite://{tmp_path}/again.db"
    cold = f"--cold=file://{archive}"
    with bookie_processes(3, tmp_path, lost), LedgerClient(lost) as client:
        ledger_id = written(client)
        told("ledger", "offload", f"--metadata={lost}", str(ledger_id), cold)
    (archive / "strange").write_bytes(b"not ours")
    cut = archive / f"{9:016x}-{bytes(16).hex()}" / "0"
    cut.parent.mkdir()
    cut.write_bytes(objects(archive)[0].read_bytes()[:-100])
    fourth = (f"--metadata={lost}", "--id=b4", f"--data={tmp_path}/fourth")
    assert bookledger("bookie", "format", *fourth).returncode == 0
    done = bookledger("metadata", "rebuild", f"--metadata={again}", str(tmp_path / "fourth"), cold)
    assert done.returncode == 0, done
    assert bookledger("metadata", "check", "--accept", "--yes", f"--metadata={again}").returncode == 0
    with LedgerClient(again) as client:
        record = client.describe_ledger(ledger_id)
        assert record.has_no_ensembles and record.is_in_object_store
        assert read(client, ledger_id) == [b"%d" % n for n in range(ENTRIES)]
