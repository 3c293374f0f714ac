"""What a bookie that mends itself gets from real bookies: every entry, from the others."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from bookie.upkeep.peers import PeersFailed
from ledgers import DigestType
from ledgers.aio import LedgerClient
from ledgers.config import MIB
from metadata.records.ledger_record import BookieRef
from tests.support.in_process import InProcessCluster, on_bookies
from tests.support.watched_peers import payload, payloads, watched, written

PASSWORD = b"correct horse battery staple"


def damage(cluster: InProcessCluster, bookie: BookieRef, what: bytes) -> None:
    """Flips a bit of these bytes wherever the bookie has them in its log."""
    places = 0
    for path in (cluster.path / bookie.bookie_id / "log").glob("*.log"):
        with path.open("r+b") as file:
            data = file.read()
            at = data.find(what)
            while at >= 0:
                file.seek(at)
                file.write(bytes([what[0] ^ 1]))
                places += 1
                at = data.find(what, at + 1)
    assert places


@pytest.mark.parametrize("shape", [(3, 3, 2), (4, 3, 2), (3, 2, 2), (4, 2, 1)])
async def test_every_bookie_of_a_ledger_can_be_mended_from_the_others_alone(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        record = (await written(client, shape, 2000)).record
        for mended in record.fragments[0].ensemble:
            async with watched(cluster.uri) as seen:
                assert await payloads(seen.peers, record, mended) == [payload(n) for n in range(2000)]
                assert mended not in seen.bookies[0].asked
                assert seen.bookies[0].asked


async def test_a_bookie_that_is_gone_is_mended_too(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        record = (await written(client, (4, 3, 2), 500)).record
        gone = record.fragments[0].ensemble[2]
        await cluster.stop(gone.bookie_id)
        async with watched(cluster.uri) as seen:
            assert await payloads(seen.peers, record, gone, first=123) == [
                payload(n) for n in range(123, 500)
            ]


async def test_fragments_on_different_ensembles_are_read_each_from_its_own(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 5) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2)
        for part in range(3):
            for n in range(300 * part, 300 * part + 300):
                await writer.append_async(payload(n))
            await writer.flush()
            failed = writer.record.fragments[-1].ensemble[part].bookie_id
            await cluster.stop(failed)
            await writer.append(payload(300 * part + 299))
            await cluster.start(failed)
        await writer.close()
        record = writer.record
        assert len(record.fragments) == 4
        async with LedgerClient(cluster.uri) as reader:
            opened = await reader.open_ledger(writer.ledger_id)
            everything = [entry.payload async for entry in opened.read()]
        for mended in {bookie for fragment in record.fragments for bookie in fragment.ensemble}:
            async with watched(cluster.uri) as seen:
                assert await payloads(seen.peers, record, mended) == everything
                assert mended not in seen.bookies[0].asked


async def test_a_copy_that_a_disk_has_damaged_is_passed_over(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        record = (await written(client, (3, 3, 2), 1000)).record
        mended, second, third = record.fragments[0].ensemble
        damage(cluster, second, payload(77))
        damage(cluster, third, payload(901))
        async with watched(cluster.uri) as seen:
            assert await payloads(seen.peers, record, mended) == [payload(n) for n in range(1000)]


async def test_an_entry_that_no_other_replica_can_give_is_named_with_what_each_said(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        record = (await written(client, (3, 3, 2), 10)).record
        mended, second, third = record.fragments[0].ensemble
        damage(cluster, second, payload(7))
        await cluster.stop(third.bookie_id)
        async with watched(cluster.uri) as seen:
            with pytest.raises(PeersFailed) as failed:
                await payloads(seen.peers, record, mended, first=7)
            assert (failed.value.ledger_id, failed.value.entry_id) == (record.ledger_id, 7)
            assert f"no other replica gave entry 7 of ledger {record.ledger_id} (" in str(failed.value)
            assert failed.value.answers[second.bookie_id] == "its copy is damaged"
            assert "it is not registered" in failed.value.answers[third.bookie_id]
            assert mended.bookie_id not in failed.value.answers
            await cluster.start(third.bookie_id)
            assert await payloads(seen.peers, record, mended, first=7) == [payload(n) for n in (7, 8, 9)]


@pytest.mark.parametrize("digest", list(DigestType))
async def test_a_closed_ledger_is_read_without_its_password(tmp_path: Path, digest: DigestType) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD, digest=digest)
        for n in range(20):
            await writer.append(payload(n))
        await writer.close()
        mended = writer.record.fragments[0].ensemble[0]
        async with watched(cluster.uri, key=cluster.keys[mended.bookie_id]) as seen:
            assert await payloads(seen.peers, writer.record, mended) == [payload(n) for n in range(20)]
            assert await seen.peers.recover(writer.ledger_id) == writer.record


async def test_a_ledger_of_200_megabytes_is_read_in_the_memory_of_a_few_pages(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with await client.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
            for n in range(800):
                await writer.append_async(b"%03d" % n * (250_000 // 3))
        record, bytes_read = writer.record, 0
        async with watched(cluster.uri) as seen:
            mended = record.fragments[0].ensemble[0]
            tracemalloc.start()
            try:
                async for page in seen.peers.entries(record, 0, 799, without=mended):
                    bytes_read += len(page.payload)
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert bytes_read == record.length_bytes == 800 * 249_999
        assert peak_bytes < 16 * MIB, f"held {peak_bytes / MIB:.0f} MiB, that of three bookies included"
