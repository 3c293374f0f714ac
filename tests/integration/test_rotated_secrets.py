"""Daemons go on, without a restart, when the password that they have for etcd is changed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess
from ledgers import LedgerClient, LedgerError
from metadata import opened_store
from metadata.records.cluster import find_bookie
from metadata.secret_file import KEY_FILE_VARIABLE
from tests.support.etcd import EtcdServer, etcd_with_tokens
from tests.support.secrets import password_file
from tests.support.waiting import until

ROOT, OF_ROOT = "root", "root's"
OLD, NEW = "old", "new"

LEASE_SECONDS = 3.0
TOKEN_SECONDS = 2
SECONDS_MAX = 60.0


@pytest.fixture(params=["jwt", "simple"])
def etcd_with_users(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EtcdServer]:
    with etcd_with_tokens(request.param, tmp_path, TOKEN_SECONDS) as server:
        server.add_user("daemon", OLD, role=ROOT)
        server.enable_auth(ROOT, OF_ROOT)
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return password_file(tmp_path / "daemon.password", OLD)


@pytest.fixture
def uris(etcd_with_users: EtcdServer, tmp_path: Path, secret: Path) -> tuple[str, str]:
    """Of the daemon, and of one whose password stays."""
    plain = f"etcd://{etcd_with_users.endpoint}/p?timeout=1"
    roots = password_file(tmp_path / "root.password", OF_ROOT)
    return f"{plain}&user=daemon&password_file={secret}", f"{plain}&user={ROOT}&password_file={roots}"


@pytest.fixture
def bookie(tmp_path: Path, uris: tuple[str, str]) -> Iterator[BookieProcess]:
    one = BookieProcess("b1", tmp_path / "b1", uris[0], lease_seconds=LEASE_SECONDS)
    one.format()
    try:
        one.start()
        yield one
    finally:
        one.stop()


def is_registered(uri: str) -> bool:
    async def found() -> bool:
        async with opened_store(uri) as store:
            return await find_bookie(store, "b1") is not None

    return asyncio.run(found())


def changed_at(etcd: EtcdServer) -> None:
    etcd.change_password("daemon", NEW, by=(ROOT, OF_ROOT))


def test_a_bookie_registers_again_once_its_file_has_the_password_that_etcd_has(
    etcd_with_users: EtcdServer, secret: Path, uris: tuple[str, str], bookie: BookieProcess
) -> None:
    changed_at(etcd_with_users)
    until(lambda: not is_registered(uris[1]), SECONDS_MAX)
    secret.write_text(NEW)
    until(lambda: is_registered(uris[1]), SECONDS_MAX)
    with LedgerClient(uris[1]) as client, client.create_ledger(ensemble_size=1) as writer:
        writer.append(b"a")


def test_a_writer_appends_and_makes_ledgers_while_both_change(
    etcd_with_users: EtcdServer, secret: Path, uris: tuple[str, str], bookie: BookieProcess
) -> None:
    def work() -> None:
        for _ in range(5):
            with client.create_ledger(ensemble_size=1) as writer:
                writer.append(b"a")

    with LedgerClient(uris[0]) as client:
        work()
        secret.write_text(NEW)
        bookie.child.signal(signal.SIGHUP)
        work()
        changed_at(etcd_with_users)
        work()
        until(lambda: "has accepted the new password" in bookie.log.read_text(), SECONDS_MAX)
        work()
    told = bookie.log.read_text()
    assert "SIGHUP: passwords and certificates will be read again" in told
    assert OF_ROOT not in told and "registration was lost" not in told, told


def test_a_client_encrypts_with_the_key_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one secret of a client that is not read again: what it wrote could be read with neither alone."""
    uri, key = f"sqlite://{tmp_path}/metadata.db", password_file(tmp_path / "key", "11" * 32)
    bookie = BookieProcess("b1", tmp_path / "b1", uri)
    bookie.format()
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key))
    try:
        bookie.start()
        with LedgerClient(uri) as client:
            key.write_text("22" * 32)
            with client.create_ledger(ensemble_size=1) as writer:
                writer.append(b"a")
        with LedgerClient(uri) as other, pytest.raises(LedgerError, match="key"):
            list(other.open_ledger(writer.ledger_id).read())
        key.write_text("11" * 32)
        with LedgerClient(uri) as same:
            assert [one.payload for one in same.open_ledger(writer.ledger_id).read()] == [b"a"]
    finally:
        bookie.stop()
