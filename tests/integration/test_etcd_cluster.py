"""A cluster over three members of etcd with TLS and authentication, through the loss of each, of the leader, of all but
one, and of history: nobody is told that something failed which only took longer, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig, MetadataUnavailable
from ledgers.aio import LedgerClient
from metadata import keys, open_store
from metadata.healing import lease_lock
from metadata.store import WatchEvent
from tests.support.aio import cancel, until_true
from tests.support.cluster_status import status
from tests.support.command_line import fails_with_one_line
from tests.support.etcd_cluster import EtcdCluster, etcd_cluster

pytestmark = pytest.mark.long

CONFIG = ClientConfig(append_quorum_seconds_max=120)


@dataclass
class Work:
    """An application: it makes a ledger, appends, closes it, and reads it back, again and again."""

    client: LedgerClient
    ledgers: list[int] = field(default_factory=list)
    refused: int = 0

    async def run(self) -> None:
        while True:
            try:
                async with await self.client.create_ledger() as writer:
                    for n in range(5):
                        await writer.append(b"%d" % n)
            except MetadataUnavailable:  # which only a store without a majority may say
                self.refused += 1
                continue
            self.ledgers.append(writer.ledger_id)
            reader = await self.client.open_ledger(writer.ledger_id)
            assert [entry.payload async for entry in reader.read()] == [b"%d" % n for n in range(5)]

    async def goes_on(self, more: int = 5) -> None:
        """So many ledgers more are made."""
        enough = len(self.ledgers) + more

        async def is_so() -> bool:
            return len(self.ledgers) >= enough

        await until_true(is_so, 0.05)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    with etcd_cluster(tmp_path / "etcd") as etcd:
        yield etcd


@pytest.fixture(autouse=True)
def bookies(etcd: EtcdCluster, tmp_path: Path) -> Iterator[list[BookieProcess]]:
    with bookie_processes(3, tmp_path, etcd.uri, lease_seconds=10) as running:
        yield running


@pytest.fixture
async def client(etcd: EtcdCluster) -> AsyncIterator[LedgerClient]:
    async with LedgerClient(etcd.uri, config=CONFIG) as client:
        yield client


@asynccontextmanager
async def at_work(client: LedgerClient) -> AsyncIterator[Work]:
    """All the while; it has not failed in the end."""
    work = Work(client)
    working = asyncio.create_task(work.run())
    await work.goes_on()
    yield work
    assert not working.done()
    await cancel(working)


async def test_members_and_the_leader_are_killed_and_hang_and_no_call_fails(
    etcd: EtcdCluster, client: LedgerClient
) -> None:
    async with at_work(client) as work:
        for choose in (lambda: etcd.followers()[0], etcd.await_leader):
            member = await asyncio.to_thread(choose)
            member.kill()
            await work.goes_on()
            await asyncio.to_thread(etcd.restart, member)
            await work.goes_on()
        for choose in (lambda: etcd.followers()[0], etcd.await_leader):
            member = await asyncio.to_thread(choose)
            member.hang()
            await work.goes_on()
            member.go_on()
            await work.goes_on()
    assert work.refused == 0
    seen = await asyncio.to_thread(status, etcd.uri)
    assert seen["metadata"]["version"].startswith("3.")
    assert sorted(seen["metadata"]["members"].values()) == ["follower", "follower", "leader"]


async def test_without_a_majority_writers_go_on_others_are_told_and_all_goes_on_when_it_is_back(
    etcd: EtcdCluster, client: LedgerClient
) -> None:
    async with at_work(client) as work:
        writer = await client.create_ledger()
        await writer.append(b"0")
        gone = await asyncio.to_thread(etcd.followers)
        for member in gone:
            member.kill()
        for n in range(1, 100):
            await writer.append(b"%d" % n)
        line = await asyncio.to_thread(fails_with_one_line, "cluster", "status", f"--metadata={etcd.uri}")
        assert "etcd did not answer" in line
        with pytest.raises(MetadataUnavailable):
            await client.create_ledger()
        for member in gone:
            member.launch(etcd._initial)
        await asyncio.to_thread(etcd.await_leader)
        await work.goes_on()
        await writer.append(b"100")
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert [entry.payload async for entry in reader.read()] == [b"%d" % n for n in range(101)]


async def test_a_follower_whose_watch_was_compacted_away_goes_on_from_a_new_look(
    etcd: EtcdCluster, client: LedgerClient
) -> None:
    """Its member was away while etcd forgot the history."""
    writer = await client.create_ledger()
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    seen: list[bytes] = []

    async def follow() -> None:
        async for entry in reader.tail():
            seen.append(entry.payload)

    following = asyncio.create_task(follow())
    await writer.append(b"first")

    async def has_seen() -> bool:
        return len(seen) == 1

    await until_true(has_seen)
    for member in etcd.members:  # wherever its watch is
        member.hang()
        other = await client.create_ledger()
        await other.close()
        store = await open_store(etcd.uri)
        page = await store.list_page(keys.LEDGERS)
        await store.close()
        member.go_on()
        await asyncio.to_thread(etcd.compact, page.revision)
    await writer.append(b"second")
    await writer.close()
    await following
    assert seen == [b"first", b"second"]


async def test_an_auditor_that_stands_still_is_followed_by_another_and_does_no_harm_when_it_wakes(
    etcd: EtcdCluster, bookies: list[BookieProcess]
) -> None:
    store = await open_store(etcd.uri)

    async def auditor() -> str | None:
        found = await lease_lock.read(store, keys.AUDITOR)
        return None if found is None else found.bookie.bookie_id

    async def is_elected() -> bool:
        return await auditor() is not None

    async def is_another() -> bool:
        return await auditor() not in (None, first)

    await until_true(is_elected, 0.2)
    first = await auditor()
    paused = next(one for one in bookies if one.bookie_id == first)
    os.kill(paused.child.pid, signal.SIGSTOP)
    await until_true(is_another, 0.2)
    second = await auditor()
    changes: list[WatchEvent] = []

    async def watch() -> None:
        async for event in store.watch(keys.AUDITOR):
            changes.append(event)

    watching = asyncio.create_task(watch())
    os.kill(paused.child.pid, signal.SIGCONT)

    async def is_whole() -> bool:
        return bool((await asyncio.to_thread(status, etcd.uri))["whole"])

    await until_true(is_whole, 0.2)
    assert await auditor() == second and changes == []
    await cancel(watching)
    await store.close()
