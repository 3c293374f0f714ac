"""`bookledger journal serve`: one name, one live daemon; what it keeps is in the store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from metadata import keys, opened_store
from metadata.records.journal_node import decode
from metadata.store import Versioned
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.journals import all_edits
from tests.support.aio import run
from tests.support.command_line import bookledger
from tests.support.etcd import EtcdServer
from tests.support.http import get
from tests.support.journal_node_daemons import JournalNodeDaemon, qjournal
from tests.support.present import there
from tests.support.waiting import until


def test_a_second_daemon_of_a_name_gives_up_and_the_first_serves_on(uri: str, tmp_path: Path) -> None:
    with JournalNodeDaemon(uri, "one", tmp_path) as daemon:
        address = ["--rpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--lease-seconds", "1"]
        second = bookledger("journal", "serve", "--metadata", uri, "--name", "one", *address)
        assert second.returncode == 1
        assert b"another daemon serves as one" in second.stderr
        assert get(f"http://{daemon.http_address}/readyz") == (200, "ok\n")
        assert daemon.stop() == 0


def test_a_daemon_shows_the_cluster_as_every_daemon_does(uri: str, tmp_path: Path) -> None:
    with JournalNodeDaemon(uri, "shown", tmp_path) as daemon:
        url = f"http://{daemon.http_address}"
        status, told = get(f"{url}/api/v1/cluster")
        assert (status, json.loads(told)["bookies"]["living"]) == (200, 3), told
        assert json.loads(get(f"{url}/api/v1/openapi.json")[1])["openapi"]
        assert get(f"{url}/")[0] == get(f"{url}/journals")[0] == 200
        metrics = get(f"{url}/metrics")[1]
        for name in (
            "bookledger_metadata_calls_total",
            "bookledger_http_connections",
            "bookledger_journalnode_connections_limit",
        ):
            assert f"\n{name}" in metrics, name
        assert "bookledger_client_metadata_calls" in metrics
        assert get(f"{url}/jmx")[0] == 200
        assert daemon.stop() == 0


def test_a_daemon_that_lost_its_host_comes_back_elsewhere_with_nothing_missing(
    uri: str, tmp_path: Path
) -> None:
    async def write(address: str) -> None:
        namespace = NamespaceInfo(7, "CID-x", layout_version=-63)
        async with QuorumJournalManager(qjournal([address], "lost")) as manager:
            await manager.format(namespace)
            await manager.recover_unfinalized_segments()
            out = await manager.start_log_segment(1)
            out.write_raw(edits(1, 3, 1), 3)
            out.set_ready_to_flush()
            await out.flush()
            daemon.kill()

    async def recover(address: str) -> None:
        async with QuorumJournalManager(qjournal([address], "lost")) as manager:
            recovered = await manager.recover_unfinalized_segments()
            assert recovered is not None and recovered.end_txid == 3
            assert await all_edits(manager) == edits(1, 3, 1)

    with JournalNodeDaemon(uri, "wanderer", tmp_path) as daemon:
        run(write(daemon.address))
    (tmp_path / "elsewhere").mkdir()
    with JournalNodeDaemon(uri, "wanderer", tmp_path / "elsewhere") as daemon:
        run(recover(daemon.address))


def test_a_daemon_that_stood_still_while_another_took_its_name_over_ends(uri: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with JournalNodeDaemon(uri, "paused", tmp_path) as first:
        first.pause()
        with JournalNodeDaemon(uri, "paused", tmp_path / "other") as second:
            first.resume()
            assert first.await_exit() == 1
            assert "another daemon serves as paused;" in first.log.read_text()
            assert get(f"http://{second.http_address}/readyz") == (200, "ok\n")
            assert second.stop() == 0


def test_a_daemon_whose_name_somebody_deletes_says_so_and_takes_it_again(
    etcd: EtcdServer, tmp_path: Path
) -> None:
    uri = cluster_on(etcd, tmp_path)
    with JournalNodeDaemon(uri, "one", tmp_path) as daemon:
        run(deleted(uri, "one"))
        until(lambda: "took the name one again" in daemon.log.read_text())
        assert "the name one was lost: its key was deleted or changed" in daemon.log.read_text()
        assert get(f"http://{daemon.http_address}/readyz") == (200, "ok\n")
        assert run(read(uri, "one")) is not None
        assert daemon.stop() == 0


def test_a_daemon_whose_name_is_anothers_ends(etcd: EtcdServer, tmp_path: Path) -> None:
    uri = cluster_on(etcd, tmp_path)
    with JournalNodeDaemon(uri, "one", tmp_path) as daemon:
        run(deleted(uri, "one", another=True))
        assert daemon.await_exit() == 1
        log = daemon.log.read_text()
        assert "the name one was lost" in log
        assert "another daemon serves as one; stop it" in log


def cluster_on(etcd: EtcdServer, tmp_path: Path) -> str:
    """A cluster of one bookie, which is away."""
    uri = f"etcd://{etcd.endpoint}/{uuid4().hex}"
    made = bookledger("bookie", "format", "--id=b1", "--metadata", uri, "--data", str(tmp_path / "b1"))
    assert made.returncode == 0, made.stderr
    return uri


async def deleted(uri: str, name: str, *, another: bool = False) -> None:
    """Somebody deletes the key, and `another` daemon creates it."""
    async with opened_store(uri) as store:
        found = there(await store.get(keys.journal_node(name)))
        await store.delete(found.key, found.version)
        if another:
            record = decode(found.key, found.value)
            await store.create(found.key, replace(record, session=b"another").encode())


async def read(uri: str, name: str) -> Versioned | None:
    async with opened_store(uri) as store:
        return await store.get(keys.journal_node(name))
