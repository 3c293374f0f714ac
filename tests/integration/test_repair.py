"""A bookie that lost something, on real bookies: it gets it back from the others, and can then do without them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie.config import BookieConfig
from bookie.serving import directory
from bookie.serving.daemon import serving
from bookie.upkeep.mending.repair import Repair
from bookie.upkeep.scrubbing.scrubber import Scrubber
from bookie.wire.messages import LacRequest, Status
from ledgers import DigestType
from ledgers.aio import LedgerClient
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.rate_limit import RateLimit
from metadata.records.cluster import find_bookie
from metadata.records.ledger_store import LedgerStore
from tests.support.in_process import LITTLE_SPACE, QUICK, InProcessCluster, on_bookies, payloads
from tests.support.upkeep import ref, tell_nobody
from tests.support.watched_peers import payload, written

AT_ONCE = 1e12
SHAPES = [(3, 3, 2), (3, 2, 2), (4, 2, 2)]


@dataclass
class Tools:
    """What mends one running bookie."""

    repair: Repair
    scrubber: Scrubber


@asynccontextmanager
async def mending(cluster: InProcessCluster, name: str) -> AsyncIterator[Tools]:
    running = cluster.running[name]
    peers, pace, lock = (
        ClusterPeers(cluster.store, QUICK, key=cluster.keys.get(name)),
        RateLimit(AT_ONCE),
        asyncio.Lock(),
    )
    repair = Repair(running.bookie, LedgerStore(cluster.store), ref(cluster, name), peers, pace)
    try:
        yield Tools(repair, Scrubber(running.bookie, repair, lock, pace, tell_nobody))
    finally:
        await peers.close()


async def start_older_copy(cluster: InProcessCluster, name: str) -> None:
    """As `InProcessCluster.start`, told that the directory is a backup."""
    config = BookieConfig(
        data_directory=cluster.path / name, metadata_uri=cluster.uri, port=0, accept_loss=True, **LITTLE_SPACE
    )
    stack = cluster.stacks[name] = AsyncExitStack()
    cluster.running[name] = await stack.enter_async_context(serving(config, cluster.store))


async def go_back(cluster: InProcessCluster, name: str, backup: Path) -> None:
    """The bookie's directory is what it was at the backup."""
    await cluster.stop(name)
    shutil.rmtree(cluster.path / name)
    shutil.copytree(backup, cluster.path / name)
    await start_older_copy(cluster, name)


async def back_up(cluster: InProcessCluster, name: str, backup: Path) -> None:
    await cluster.stop(name)
    shutil.copytree(cluster.path / name, backup)
    await cluster.start(name)


async def all_of(client: LedgerClient, ledger_id: int) -> list[bytes]:
    return await payloads(await client.open_ledger(ledger_id))


async def stop_all_but(cluster: InProcessCluster, *names: str) -> None:
    for name in set(cluster.stacks) - set(names):
        await cluster.stop(name)


async def abandoned_ledger(cluster: InProcessCluster, count: int) -> int:
    """A ledger on three bookies whose writer is gone without closing it: one that lives would mend its ensemble."""
    async with LedgerClient(cluster.uri, config=QUICK) as client:
        writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        for n in range(count):
            await writer.append(payload(n))
        await writer.abandon()
    return writer.ledger_id


async def test_a_bookie_restored_from_a_backup_gets_what_it_took_since_from_the_others(
    tmp_path: Path,
) -> None:
    """Ledgers that were closed, and one whose writer is gone; then it serves them alone."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        before = (await written(client, (3, 3, 2), 300)).ledger_id
        await back_up(cluster, "b1", tmp_path / "backup")
        newer = (await written(client, (3, 3, 2), 300)).record
        since = newer.ledger_id
        abandoned = await abandoned_ledger(cluster, 20)
        await go_back(cluster, "b1", tmp_path / "backup")
        bookie, incarnation = cluster.running["b1"].bookie, ref(cluster, "b1").incarnation
        asked = await bookie.last_add_confirmed(LacRequest(incarnation, since, identity=newer.identity))
        assert asked.status is Status.UNKNOWN
        async with mending(cluster, "b1") as tools:
            report = await tools.repair.repair_limbo()
        assert (report.ledgers, report.ledgers_unrepaired) == (3, 0)
        # The recovery of the open one may have written its last entry to the bookie itself.
        assert 319 <= report.entries <= 320
        assert not any(state.limbo for state in bookie.index.states())
        await stop_all_but(cluster, "b1")
        for ledger_id, count in ((before, 300), (since, 300), (abandoned, 20)):
            assert await all_of(client, ledger_id) == [payload(n) for n in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
async def test_rot_is_found_and_mended_by_one_scrub(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    """On every bookie of the ledger, one after the other.

    All copies are waited for: what a bookie is behind with is joined, and two rotten entries would stand in one frame.
    """
    size, quorum, _ = shape
    async with on_bookies(tmp_path, 4) as (cluster, client):
        record = (await written(client, (size, quorum, quorum), 600)).record
        for bookie in record.fragments[0].ensemble:
            rotten = rot(cluster, bookie.bookie_id, [payload(n) for n in range(0, 600, 149)])
            async with mending(cluster, bookie.bookie_id) as tools:
                report = await tools.scrubber.scrub_once()
                assert report.frames_damaged == rotten > 0
                assert 0 < report.damaged <= rotten  # frames side by side are one stretch
                assert report.entries_repaired >= rotten
                assert report.ledgers_unrepaired == 0
                assert await tools.repair.missing(record, verify=True) == []
        assert await all_of(client, record.ledger_id) == [payload(n) for n in range(600)]


def rot(cluster: InProcessCluster, name: str, what: Sequence[bytes]) -> int:
    """A bit of each of these entries is another in the bookie's log; returns how many it held."""
    found = 0
    for path in (cluster.path / name / "log").glob("*.log"):
        data = path.read_bytes()
        with path.open("r+b") as file:
            for at in [data.find(one) for one in what]:
                if at >= 0:
                    file.seek(at)
                    file.write(bytes([data[at] ^ 1]))
                    found += 1
    return found


@pytest.mark.parametrize("digest", list(DigestType))
async def test_a_spare_bookie_takes_over_from_a_lost_one(tmp_path: Path, digest: DigestType) -> None:
    """Closed ledgers with and without a password; then the spare serves them alone."""
    async with on_bookies(tmp_path, 4) as (cluster, client):
        async with await client.create_ledger(password=b"secret", digest=digest) as writer:
            for n in range(50):
                await writer.append(payload(n))
        lost, *others = [one.bookie_id for one in writer.record.fragments[0].ensemble]
        (spare,) = set(cluster.stacks) - {lost, *others}
        await cluster.stop(lost)
        async with mending(cluster, spare) as tools:
            report = await tools.repair.adopt(lost, living=await living(cluster, lost))
        assert (report.ledgers, report.entries, report.fragments_moved) == (1, 50, 1)
        record = (await client.describe_ledger(writer.ledger_id)).fragments[0]
        assert record.ensemble[0] == ref(cluster, spare)
        await stop_all_but(cluster, spare)
        reader = await client.open_ledger(writer.ledger_id, password=b"secret")
        assert await payloads(reader) == [payload(n) for n in range(50)]


async def living(cluster: InProcessCluster, name: str) -> str | None:
    found = await find_bookie(cluster.store, name)
    return None if found is None else found.bookie.incarnation


async def test_a_bookie_on_a_new_disk_takes_the_places_of_its_former_self(tmp_path: Path) -> None:
    """Also in a ledger that nobody closed."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        closed = (await written(client, (3, 3, 2), 300)).ledger_id
        abandoned = await abandoned_ledger(cluster, 10)
        await cluster.stop("b2")
        shutil.rmtree(cluster.path / "b2")
        await directory.format_directory(cluster.path / "b2", "b2", cluster.store, replace=True)
        await cluster.start("b2")
        async with mending(cluster, "b2") as tools:
            report = await tools.repair.adopt("b2", living=await living(cluster, "b2"))
        assert (report.ledgers, report.ledgers_unrepaired) == (2, 0)
        # The recovery of the open one may have written its last entry to the new disk itself.
        assert 309 <= report.entries <= 310
        await stop_all_but(cluster, "b2")
        assert await all_of(client, closed) == [payload(n) for n in range(300)]
        assert await all_of(client, abandoned) == [payload(n) for n in range(10)]
