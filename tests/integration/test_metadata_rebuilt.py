"""The metadata of a cluster is lost without a backup, and made again from what its bookies hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import DigestType, LedgerClient
from tests.integration.test_metadata_rollback import has_been_compared
from tests.qjm_compat.transfer.made_directories import finalized, version
from tests.support.command_line import bookledger, fails_with_one_line, succeeds
from tests.support.etcd import EtcdServer
from tests.support.waiting import until

PASSWORD = b"secret"


@dataclass(frozen=True)
class Losable:
    """A store, and what makes it forget all that it has."""

    uri: str
    lose: Callable[[], object]


@contextmanager
def etcd_in(path: Path) -> Iterator[Losable]:
    (path / "etcd").mkdir()
    etcd, empty = EtcdServer(path / "etcd"), path / "empty"
    etcd.start()
    etcd.set_aside(empty)
    try:
        yield Losable(f"etcd://{etcd.endpoint}/test", lambda: etcd.go_back(empty))
    finally:
        etcd.stop()


@contextmanager
def sqlite_in(path: Path) -> Iterator[Losable]:
    file = path / "metadata.db"

    def lose() -> None:
        for suffix in ("-wal", "-shm", ""):
            file.with_name(file.name + suffix).unlink()

    yield Losable(f"sqlite://{file}", lose)


stores = pytest.mark.parametrize("store", [etcd_in, sqlite_in], ids=["etcd", "sqlite"])


@dataclass
class Filled:
    """What a cluster had: of each ledger, the journal and the log all that can be read."""

    uri: str
    ledgers: dict[int, list[bytes]]
    open: set[int]
    edits: list[bytes]
    records: list[bytes]

    def has_everything(self) -> bool:
        with LedgerClient(self.uri) as client:
            for ledger_id, payloads in self.ledgers.items():
                password = PASSWORD if payloads and payloads[0].startswith(PASSWORD) else b""
                with client.open_ledger(ledger_id, password=password) as reader:
                    assert [entry.payload for entry in reader] == payloads, ledger_id
            assert [one.payload for one in client.log("orders").read()] == self.records
        assert edits(self.uri) == self.edits
        return True


def edits(uri: str) -> list[bytes]:
    return succeeds("journal", "tail", "ns1", f"--metadata={uri}").splitlines()


def filled(uri: str, path: Path, bookies: list[BookieProcess], count: int) -> Filled:
    """Ledgers open, closed, striped, moved, with passwords, deleted; one that lost a bookie; a journal, a log."""
    ledgers: dict[int, list[bytes]] = {}
    are_open = set()
    with LedgerClient(uri) as client:
        for n in range(4):
            with client.create_ledger(ensemble_size=3) as moved:
                moved.append(b"moved %d" % n)
            ledgers[moved.ledger_id] = [b"moved %d" % n]
        drained = moved.record.fragments[0].ensemble[0].bookie_id
        for how in ("--wait", "--cancel"):
            assert bookledger("bookie", "drain", drained, how, f"--metadata={uri}").returncode == 0
        changed = client.create_ledger(ensemble_size=3, ack_quorum=2)
        changed.append(b"before")
        by_name = {one.bookie_id: one for one in bookies}
        gone = by_name[changed.record.fragments[0].ensemble[0].bookie_id]
        gone.kill()
        for n in range(20):
            changed.append(b"after %d" % n)
        gone.start()
        until(lambda: len(client.list_bookies()) == len(bookies))
        ledgers[changed.ledger_id] = [b"before", *(b"after %d" % n for n in range(20))]
        are_open.add(changed.ledger_id)
        for n in range(count):
            protected = n % 4 == 1
            writer = client.create_ledger(
                ensemble_size=4 - n % 2,
                write_quorum=2,
                ack_quorum=2,
                password=PASSWORD if protected else b"",
                digest=DigestType.HMAC_SHA256 if protected else DigestType.CRC32C,
            )
            payloads = [b"%s%d of %d" % (PASSWORD if protected else b"", m, n) for m in range(n % 7)]
            for future in [writer.append_async(payload) for payload in payloads]:
                future.result()
            if n % 5 == 2 and payloads:
                are_open.add(writer.ledger_id)
            else:
                writer.close()
            if n % 11 == 3:
                client.delete_ledger(writer.ledger_id, password=PASSWORD if protected else b"", force=True)
                are_open.discard(writer.ledger_id)
            elif payloads:  # of a ledger without an entry no bookie knows anything
                ledgers[writer.ledger_id] = payloads
        log = client.create_log("orders", roll_records=10)
        records = []
        for turn in range(2):
            with log.writer() as of_log:
                for n in range(25):
                    records.append(b"%d.%d" % (turn, n))
                    of_log.append(records[-1])
    (path / "current").mkdir()
    version(path / "current")
    for first in (1, 4, 7):
        finalized(path / "current", first, first + 2)
    assert bookledger("journal", "import", "ns1", str(path / "current"), f"--metadata={uri}").returncode == 0
    return Filled(uri, ledgers, are_open, edits(uri), records)


def rebuilt(uri: str, *arguments: str) -> list[dict[str, Any]]:
    done = succeeds("metadata", "rebuild", f"--metadata={uri}", "--json", *arguments)
    return [json.loads(line) for line in done.splitlines()]


def accepted(uri: str, bookies: list[BookieProcess]) -> None:
    until(lambda: has_been_compared(uri, bookies))
    succeeds("metadata", "check", "--accept", "--yes", f"--metadata={uri}")


def goes_on(before: Filled) -> None:
    """Ledgers get new ids, the log and the journal go on where they ended."""
    with LedgerClient(before.uri) as client:
        with client.create_ledger() as writer:
            assert writer.append(b"new") == 0 and writer.ledger_id > max(before.ledgers)
        with client.log("orders").writer() as of_log:
            assert of_log.append(b"new") == len(before.records)


@stores
def test_a_store_that_was_lost_is_made_again_from_bookies_that_live(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[Losable]]
) -> None:
    with store(tmp_path) as metadata, bookie_processes(5, tmp_path, metadata.uri, lease_seconds=2) as bookies:
        before = filled(metadata.uri, tmp_path, bookies, 24)
        assert "there is a cluster here" in fails_with_one_line(
            "metadata", "rebuild", f"--metadata={metadata.uri}"
        )
        metadata.lose()
        if "sqlite" in metadata.uri:  # the first call makes the file, which the bookies find there
            bookledger("metadata", "rebuild", f"--metadata={metadata.uri}", "--dry-run")
        until(lambda: are_registered(metadata.uri, len(bookies)))
        would, *_ = rebuilt(metadata.uri, "--dry-run")
        made, *doubts = rebuilt(metadata.uri)
        # a bookie may be told of a ledger's end in between
        assert {**would, "rebuilt": True, "open": made["open"]} == made
        assert made["ledgers"] >= len(before.ledgers) and (made["journals"], made["logs"]) == (1, 1)
        assert made["unknown"] == 0 and doubts == []
        accepted(metadata.uri, bookies)
        assert before.has_everything()
        goes_on(before)


def are_registered(uri: str, count: int) -> bool:
    with LedgerClient(uri) as client:
        return len(client.list_bookies()) == count


def test_a_store_that_was_lost_is_made_again_from_directories_of_stopped_bookies(tmp_path: Path) -> None:
    with (
        sqlite_in(tmp_path) as metadata,
        bookie_processes(5, tmp_path, metadata.uri, lease_seconds=2) as bookies,
    ):
        before = filled(metadata.uri, tmp_path, bookies, 24)
        for bookie in bookies:
            bookie.kill()
        metadata.lose()
        directories = [str(bookie.directory) for bookie in bookies]
        assert "no bookie is registered" in fails_with_one_line(
            "metadata", "rebuild", f"--metadata={metadata.uri}"
        )
        made, *doubts = rebuilt(metadata.uri, *directories)
        assert (made["bookies"], made["journals"], made["logs"]) == (5, 1, 1) and doubts == []
        for bookie in bookies:
            bookie.start()
        accepted(metadata.uri, bookies)
        assert before.has_everything()
        goes_on(before)
