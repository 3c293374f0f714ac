"""What a bookie that mends itself gets from real bookies: every entry, from the others."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ledgers import DigestType
from ledgers.config import MIB
from tests.support.in_process import on_bookies
from tests.support.watched_peers import payload, payloads, watched

PASSWORD = b"correct horse battery staple"


@pytest.mark.parametrize("digest", list(DigestType))
async def test_a_closed_ledger_is_read_without_its_password(tmp_path: Path, digest: DigestType) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD, digest=digest)
        for n in range(20):
            await writer.append(payload(n))
        await writer.close()
        mended = writer.record.fragments[0].ensemble[0]
        async with watched(cluster.store, key=cluster.keys[mended.bookie_id]) as seen:
            assert await payloads(seen.peers, writer.record, mended) == [payload(n) for n in range(20)]
            assert await seen.peers.recover(writer.ledger_id) == writer.record


async def test_a_ledger_of_200_megabytes_is_read_in_the_memory_of_a_few_pages(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with await client.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
            for n in range(800):
                await writer.append_async(b"%03d" % n * (250_000 // 3))
        record, bytes_read = writer.record, 0
        async with watched(cluster.store) as seen:
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
