"""The metadata is set back to an older copy under bookies that live on.

W8: no bookie takes or gives another ledger of the same id; a store that went back is noticed, and all hold back; what
an operator accepts has all records that living bookies know, and a recovery loses nothing by an older one. Step by
step: recoveries in scenarios/test_recovering_on_older_metadata.py, noticing and vouching in
bookie/serving/test_metadata_watch.py, notes in metadata/test_reconciling.py.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig, LedgerClient
from ledgers.errors import (
    LedgerError,
    LedgerFenced,
    LedgerIdReused,
    LedgerRecoveryFailed,
    MetadataUnavailable,
    MetadataWentBack,
    NotEnoughAnswers,
)
from metadata import opened_store
from metadata.backup import hold
from metadata.backup.hold import Misfits
from metadata.records import directory_generations
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef
from tests.support.aio import run
from tests.support.cluster_status import status
from tests.support.command_line import bookledger, succeeds, told
from tests.support.etcd import EtcdServer
from tests.support.waiting import until

SELDOM = 600
"""Lease seconds of bookies that renew their keys only when this test is over, and compare where they are fenced."""

QUICK = ClientConfig(read_seconds_max=2, recovery_tries_max=2)


@dataclass(frozen=True)
class Metadata:
    """A store that can be set back. `save` is called once, then `go_back`."""

    uri: str
    save: Callable[[], object]
    go_back: Callable[[], object]


@contextmanager
def etcd_in(path: Path) -> Iterator[Metadata]:
    (path / "etcd").mkdir()
    etcd, copy = EtcdServer(path / "etcd"), path / "copy"
    etcd.start()
    try:
        yield Metadata(
            f"etcd://{etcd.endpoint}/test", lambda: etcd.set_aside(copy), lambda: etcd.go_back(copy)
        )
    finally:
        etcd.stop()


@contextmanager
def sqlite_in(path: Path) -> Iterator[Metadata]:
    file, copy = path / "metadata.db", path / "copy.db"

    def save() -> None:
        with closing(sqlite3.connect(file)) as live, closing(sqlite3.connect(copy)) as saved:
            live.backup(saved)

    def go_back() -> None:
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        shutil.copy(copy, path / "older.db")
        (path / "older.db").rename(file)

    yield Metadata(f"sqlite://{file}", save, go_back)


stores = pytest.mark.parametrize("store", [etcd_in, sqlite_in], ids=["etcd", "sqlite"])


def closed_ledgers(client: LedgerClient, count: int) -> list[int]:
    made = []
    for n in range(count):
        with client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
            for m in range(5):
                writer.append(b"%d of ledger %d" % (m, n))
        made.append(writer.ledger_id)
    return made


def is_held_back(uri: str) -> bool:
    async def held() -> bool:
        async with opened_store(uri) as store:
            return await hold.read(store) is not None

    return run(held())


@stores
def test_W8_of_an_id_that_is_given_twice_no_bookie_takes_or_gives_the_other_ledger(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[Metadata]]
) -> None:
    with (
        store(tmp_path) as metadata,
        bookie_processes(3, tmp_path, metadata.uri, lease_seconds=SELDOM),
        LedgerClient(metadata.uri) as former,
    ):
        with former.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
            writer.append(b"of a ledger that is older than the copy")
        metadata.save()
        (ledger_id,) = closed_ledgers(former, 1)
        living = former.create_ledger(ensemble_size=3, ack_quorum=2)
        living.append(b"a")
        metadata.go_back()
        with LedgerClient(metadata.uri) as client:
            newer = client.create_ledger(ensemble_size=3, ack_quorum=2)
            assert newer.ledger_id == ledger_id
            with pytest.raises(LedgerIdReused, match=r"not the one requested.* metadata check"):
                newer.append(b"mixed")
            assert is_held_back(metadata.uri)
            with pytest.raises(MetadataWentBack):
                client.create_ledger(ensemble_size=3, ack_quorum=2)
            with pytest.raises(LedgerRecoveryFailed, match="metadata check"):
                client.open_ledger(ledger_id)
            with pytest.raises(NotEnoughAnswers, match="not the one requested"):
                client.open_ledger(ledger_id, recovery=False)
            with client.open_ledger(writer.ledger_id) as reader:
                assert [entry.payload for entry in reader] == [b"of a ledger that is older than the copy"]


def test_W8_a_ledger_whose_ensemble_changed_after_the_copy_is_recovered_with_what_the_bookies_that_took_over_have(
    tmp_path: Path,
) -> None:
    """Nothing is closed before all have compared, and an operator has accepted what is there; what a hung bookie alone
    knows is put in when it tells."""
    with (
        etcd_in(tmp_path) as metadata,
        bookie_processes(5, tmp_path, metadata.uri, lease_seconds=12) as bookies,
        LedgerClient(metadata.uri) as client,
    ):
        writer = client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        payloads = [b"%d" % n for n in range(5)]
        for payload in payloads:
            writer.append(payload)
        metadata.save()
        by_name = {bookie.bookie_id: bookie for bookie in bookies}
        first, second = [by_name[former.bookie_id] for former in writer.record.fragments[0].ensemble]
        first.kill()
        payloads.append(b"without the first")
        writer.append(payloads[-1])
        (third,) = [b for b in writer.record.fragments[-1].ensemble if b.bookie_id != second.bookie_id]
        first.start()
        second.kill()
        for payload in (b"without the second", b"whose confirmation tells the one before"):
            payloads.append(payload)
            writer.append(payload)
        metadata.go_back()
        with LedgerClient(metadata.uri, config=QUICK) as another:
            with suppress(LedgerError):  # a bookie may have noticed already
                another.create_ledger(ensemble_size=1).close()  # the revision grows
            with pytest.raises(LedgerRecoveryFailed, match="until an operator accepts it"):
                another.open_ledger(writer.ledger_id)
            until(lambda: len(compared(metadata.uri)) == len(bookies) - 1)
            by_name[third.bookie_id].child.signal(signal.SIGSTOP)
            accept = "metadata", "check", "--accept", "--yes", f"--metadata={metadata.uri}"
            made = bookledger(*accept)
            assert b"1 records were rebuilt" in made.stdout, made.stdout.decode()
            assert f"{third.bookie_id} did not report its notes".encode() in made.stdout
            by_name[third.bookie_id].child.signal(signal.SIGCONT)
            made = bookledger(*accept)
            assert b"1 records were rebuilt" in made.stdout, made.stdout.decode()
            with another.open_ledger(writer.ledger_id) as reader:
                assert [entry.payload for entry in reader] == payloads
        with pytest.raises(LedgerFenced):
            writer.append(b"after it was closed")


def compared(uri: str) -> dict[str, Misfits]:
    """What bookies have told, by name."""

    async def told() -> dict[str, Misfits]:
        async with opened_store(uri) as store:
            restored = await hold.read(store)
            return {} if restored is None else await hold.read_misfits(store, restored)

    return run(told())


def renewals(uri: str) -> dict[str, int]:
    """How often each bookie has renewed its key."""

    async def read() -> dict[str, int]:
        async with opened_store(uri) as store:
            here = [one.bookie for one in await list_bookies(store)]
            lives = [await directory_generations.read(store, one.bookie_id, one.incarnation) for one in here]
            return {one.bookie_id: life.renewals for one, life in zip(here, lives, strict=True)}

    return run(read())


@stores
def test_W8_a_store_that_went_back_is_noticed_and_everything_holds_back(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[Metadata]]
) -> None:
    with store(tmp_path) as metadata, bookie_processes(3, tmp_path, metadata.uri, lease_seconds=2) as bookies:
        with LedgerClient(metadata.uri) as client:
            closed_ledgers(client, 1)
            metadata.save()
            lost = closed_ledgers(client, 8)
        before: dict[str, int] = {}
        until(lambda: len(before.update(renewals(metadata.uri)) or before) == 3)
        until(lambda: all(renewals(metadata.uri).get(name, 0) > times for name, times in before.items()))
        assert not is_held_back(metadata.uri)
        metadata.go_back()
        until(lambda: is_held_back(metadata.uri))
        with LedgerClient(metadata.uri) as client:
            with pytest.raises(LedgerError, match="until an operator accepts it"):
                client.create_ledger()
            with pytest.raises(MetadataUnavailable, match=f"whether ledger {lost[0]} exists: .* accepts it"):
                client.open_ledger(lost[0])
        seen = status(metadata.uri)
        noticed, why = seen["noticed"], "\n".join(seen["why_not_whole"])
        assert not seen["whole"] and noticed["found"] < noticed["expected"], seen
        assert f"bookie {noticed['bookie_id']} found {noticed['compared']} at {noticed['found']}" in why
        check = bookledger("metadata", "check", f"--metadata={metadata.uri}")
        assert f"{noticed['found']}, but expected {noticed['expected']} or more".encode() in check.stdout
        until(lambda: has_been_compared(metadata.uri, bookies))
        done = bookledger("metadata", "check", "--accept", "--yes", f"--metadata={metadata.uri}")
        assert done.returncode == 0, done
        assert b"8 ledgers that the metadata has lost are rebuilt" in done.stdout, done
        assert b"8 records were rebuilt" in done.stdout, done
        with LedgerClient(metadata.uri) as client, client.create_ledger(ensemble_size=3) as writer:
            assert writer.ledger_id > max(lost), "no id is given twice"
            writer.append(b"after that")
            for n, ledger_id in enumerate(lost):
                found = [entry.payload for entry in client.open_ledger(ledger_id)]
                assert found == [b"%d of ledger %d" % (m, n) for m in range(5)]
        for bookie in bookies:
            done = told("bookie", "gc", "run", bookie.bookie_id, f"--metadata={metadata.uri}")
            assert done["ledgers_forgotten"] == 0, done


def test_W8_an_etcd_that_was_emptied_under_living_bookies_is_said_to_be_and_takes_a_backup(
    tmp_path: Path,
) -> None:
    (tmp_path / "etcd").mkdir()
    etcd, empty, saved = EtcdServer(tmp_path / "etcd"), tmp_path / "empty", tmp_path / "saved"
    etcd.start()
    try:
        etcd.set_aside(empty)
        uri = f"etcd://{etcd.endpoint}/test"
        with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
            with LedgerClient(uri) as client:
                (kept,) = closed_ledgers(client, 1)
            assert bookledger("metadata", "backup", f"--metadata={uri}", str(saved)).returncode == 0
            with LedgerClient(uri) as client:
                (newer,) = closed_ledgers(client, 1)
            etcd.go_back(empty)
            until(lambda: is_held_back(uri))
            until(lambda: len(registered(uri)) == len(bookies))
            for command in (
                ("cluster", "status"),
                ("metadata", "check"),
                ("ledger", "read", str(kept)),
                ("ledger", "append"),
                ("log", "read", "orders"),
                ("log", "append", "--create", "orders"),
            ):
                done = bookledger(*command, f"--metadata={uri}", stdin=b"a\n")
                assert done.returncode == 1
                assert b"the metadata of the cluster that was here is gone" in done.stderr
            with (
                LedgerClient(uri) as client,
                pytest.raises(MetadataUnavailable, match="it is not known whether"),
            ):
                client.open_ledger(kept)
            too_early = bookledger("metadata", "restore", f"--metadata={uri}", str(saved))
            assert b"stop all of them first" in too_early.stderr
            for bookie in bookies:
                assert bookie.stop() == 0
            succeeds("metadata", "restore", f"--metadata={uri}", str(saved))
            for bookie in bookies:
                bookie.start()
            until(lambda: has_been_compared(uri, bookies))
            assert bookledger("metadata", "check", "--accept", "--yes", f"--metadata={uri}").returncode == 0
            with LedgerClient(uri) as client:
                assert len(list(client.open_ledger(kept))) == 5
                assert closed_ledgers(client, 1) > [newer], "no id is given twice"
    finally:
        etcd.stop()


def registered(uri: str) -> list[BookieRef]:
    with LedgerClient(uri) as client:
        return [one.bookie for one in client.list_bookies()]


def has_been_compared(uri: str, bookies: list[BookieProcess]) -> bool:
    done = bookledger("metadata", "check", f"--metadata={uri}", "--json")
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if "bookie_id" in row]
    return len(rows) == len(bookies) and all(row["compared"] for row in rows)
