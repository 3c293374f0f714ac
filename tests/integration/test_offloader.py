"""The offloader: rounds on real bookies, and the daemon with processes that die."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, aio
from ledgers.cold.errors import ObjectStoreFailed
from ledgers.cold.object_store import Objects
from ledgers.offloading.offloader import COPIES_AT_ONCE, ELECTION, STORE_FAILURES_MAX, Offloader
from ledgers.offloading.policy import OffloadPolicy
from metadata.records.cold.offloader_state import OffloaderState
from tests.integration.test_offload import closed, collected, objects, on_four, payload, url_of
from tests.support.cluster_status import status
from tests.support.command_line import bookledger, told
from tests.support.in_process import InProcessCluster, payloads
from tests.support.waiting import until

__all__ = ["on_four"]
AT_ONCE = OffloadPolicy(after_seconds=0.0, keep_seconds=0.0)
LATER = OffloadPolicy(after_seconds=0.0, keep_seconds=3600.0)


def made(tmp_path: Path) -> Path:
    """The directory that is the object store."""
    archive = tmp_path / "archive"
    archive.mkdir()
    return archive


async def round_of(client: aio.LedgerClient, offloader: Offloader) -> OffloaderState:
    async with client.election(ELECTION).lead() as term:
        return await offloader.round(term)


async def test_a_round_copies_what_is_due_and_a_later_one_takes_it_off_bookies(
    on_four: tuple[InProcessCluster, aio.LedgerClient], tmp_path: Path
) -> None:
    cluster, client = on_four
    archive = made(tmp_path)
    ledgers = [await closed(client, 20) for _ in range(3)]
    secret = await closed(client, 20, password=b"secret")
    writer = await client.create_ledger()
    state = await round_of(client, await client.offloader(url_of(archive), LATER))
    assert (state.stored, state.on_bookies, state.waiting, state.with_password) == (3, 3, 0, 1)
    assert len(objects(archive)) == 3 and state.stored_bytes == sum(
        p.stat().st_size for p in objects(archive)
    )
    state = await round_of(client, await client.offloader(url_of(archive), AT_ONCE))
    assert (state.stored, state.on_bookies) == (3, 0)
    await collected(cluster)
    for ledger_id in ledgers:
        assert await payloads(await client.open_ledger(ledger_id)) == [payload(n) for n in range(20)]
    for ledger_id in (secret, writer.ledger_id):
        assert (await client.describe_ledger(ledger_id)).cold is None
    await client.delete_ledger(ledgers[0])
    await round_of(client, await client.offloader(url_of(archive), AT_ONCE))
    assert len(objects(archive)) == 2


async def test_a_ledger_that_cannot_be_copied_hinders_no_other_and_is_told(
    on_four: tuple[InProcessCluster, aio.LedgerClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = on_four
    bad, good = await closed(client, 5), await closed(client, 5)
    real = Objects.size

    async def size(self: Objects, name: str) -> int:
        if name.startswith(f"{bad:016x}"):
            raise ObjectStoreFailed(name, "throttled")
        return await real(self, name)

    monkeypatch.setattr(Objects, "size", size)
    offloader = await client.offloader(url_of(made(tmp_path)), AT_ONCE)
    state = await round_of(client, offloader)
    assert state.failed.keys() == {bad} and "throttled" in state.failed[bad]
    assert (state.stored, state.waiting, state.next_ledgers) == (1, 1, (bad,))
    assert (await client.describe_ledger(good)).is_in_object_store
    monkeypatch.undo()
    state = await round_of(client, offloader)
    assert (state.failed, state.stored, state.waiting) == ({}, 2, 0)
    assert (offloader.counts["copied"], offloader.counts["failed"]) == (2, 1)


async def test_a_round_copies_no_further_ledger_into_a_store_that_fails(
    on_four: tuple[InProcessCluster, aio.LedgerClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = on_four
    ledgers = [await closed(client, 5) for _ in range(STORE_FAILURES_MAX + COPIES_AT_ONCE + 2)]
    asked = set()

    async def full(self: Objects, name: str) -> int:
        asked.add(name)
        raise ObjectStoreFailed(name, "the quota is used up")

    monkeypatch.setattr(Objects, "size", full)
    offloader = await client.offloader(url_of(made(tmp_path)), AT_ONCE)
    state = await round_of(client, offloader)
    assert STORE_FAILURES_MAX <= len(asked) < STORE_FAILURES_MAX + COPIES_AT_ONCE
    assert (len(state.failed), state.waiting) == (len(asked), len(ledgers))
    monkeypatch.undo()
    assert (await round_of(client, offloader)).stored == len(ledgers)


async def test_an_object_that_is_missing_or_cut_off_is_told_until_it_is_back(
    on_four: tuple[InProcessCluster, aio.LedgerClient], tmp_path: Path
) -> None:
    _, client = on_four
    archive = made(tmp_path)
    ledger_id = await closed(client, 5)
    offloader = await client.offloader(url_of(archive), AT_ONCE)
    await round_of(client, offloader)
    (there,) = objects(archive)
    data = there.read_bytes()
    there.unlink()
    assert "there is no such object" in (await round_of(client, offloader)).missing[ledger_id]
    there.write_bytes(data[:-1])
    assert f"{len(data) - 1} bytes of {len(data)}" in (await round_of(client, offloader)).missing[ledger_id]
    there.write_bytes(data)
    assert (await round_of(client, offloader)).missing == {}


def test_of_two_offloaders_one_works_and_the_other_goes_on_when_it_is_killed(tmp_path: Path) -> None:
    uri, archive = f"sqlite://{tmp_path}/metadata.db", made(tmp_path)
    command = [
        sys.executable,
        "-m",
        "bookledger",
        "offloader",
        f"--metadata={uri}",
        f"--cold=file://{archive}",
    ]
    options = ["--after=0", "--keep=0", "--every=0.2", "--json"]

    def written(client: LedgerClient) -> int:
        with client.create_ledger() as writer:
            writer.append(b"kept")
        return writer.ledger_id

    with bookie_processes(3, tmp_path, uri), LedgerClient(uri) as client:

        def is_moved(ledger_id: int) -> bool:
            record = client.describe_ledger(ledger_id)
            return record.is_in_object_store and not any(one.ensemble for one in record.fragments)

        first, second = [subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) for _ in range(2)]
        try:
            moved = written(client)
            until(lambda: is_moved(moved))
            first.send_signal(signal.SIGKILL)
            first.wait()
            later = written(client)
            until(lambda: is_moved(later))
            assert [one.payload for one in client.open_ledger(later)] == [b"kept"]
            shown = told("cluster", "cold", f"--metadata={uri}")
            assert shown["stored_ledgers"] == 2 and shown["failed"] == [] and shown["round_seconds_ago"] < 60
            for path in objects(archive):
                path.unlink()
            missing = "objects of ledgers are missing"
            until(lambda: any(missing in why for why in status(uri)["why_not_whole"]))
            assert not status(uri)["whole"]
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
        finally:
            for one in (first, second):
                one.kill()
                one.wait()


def test_one_round_by_command_says_what_it_found(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta, cold = f"--metadata={uri}", f"--cold=file://{made(tmp_path)}"
    with bookie_processes(3, tmp_path, uri), LedgerClient(uri) as client:
        nobody = bookledger("cluster", "cold", meta)
        assert nobody.returncode == 0 and b"there has been no offloader" in nobody.stderr
        log = client.log("orders", create=True)
        with log.writer() as writer:
            writer.append(b"kept")
        found: dict[str, Any] = told(
            "offloader", meta, cold, "--once", "--after=0", "--keep=0", "--log=orders=never"
        )
        assert (found["stored_ledgers"], found["waiting_ledgers"]) == (0, 0)
        found = told("offloader", meta, cold, "--once", "--after=1e9", "--keep=0", "--log=orders=0")
        assert (found["stored_ledgers"], found["waiting_ledgers"]) == (1, 0)
        for value in ("orders", "orders=nan", "orders=-1"):
            wrong = bookledger("offloader", meta, cold, "--once", f"--log={value}")
            assert wrong.returncode == 2 and b"NAME=SECONDS" in wrong.stderr
        assert json.loads(bookledger("cluster", "cold", meta, "--json").stdout)["stored_ledgers"] == 1


def test_one_round_by_command_fails_if_a_copy_fails_or_another_offloader_is_elected(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    archive = made(tmp_path)
    meta, cold = f"--metadata={uri}", f"--cold=file://{archive}"
    with bookie_processes(3, tmp_path, uri), LedgerClient(uri) as client:
        with client.create_ledger() as writer:
            writer.append(b"kept")
        copy = client.offload_ledger(writer.ledger_id, f"file://{archive}", keep_on_bookies=True).cold
        assert copy is not None
        (archive / copy.name_of(0)).unlink()
        done = bookledger("offloader", meta, cold, "--once", "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["missing"]
        with client.election(ELECTION).lead("the daemon"):
            refused = bookledger("offloader", meta, cold, "--once")
        assert refused.returncode == 1
        assert b"the offloader the daemon is elected and runs the rounds" in refused.stderr
