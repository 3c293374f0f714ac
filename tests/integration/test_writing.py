"""Writing to a ledger on real bookies: what is taken in, what is bounded, what ends a writer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import ClientConfig, DigestType, EntryTooLarge, LedgerClosed, NotEnoughBookies
from ledgers.aio import LedgerClient
from ledgers.entry import ENTRY_OVERHEAD_BYTES
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads
from tests.support.long_runs import first_then_long


async def test_an_entry_over_the_limit_is_refused_and_the_writer_goes_on(client: LedgerClient) -> None:
    async with await client.create_ledger() as writer:
        with pytest.raises(EntryTooLarge, match="split it"):
            await writer.append(bytes(4 * 1024 * 1024 + 1))
        assert await writer.append(bytes(4 * 1024 * 1024)) == 0
        assert await writer.append(b"") == 1
    reader = await client.open_ledger(writer.ledger_id)
    assert [len(p) for p in await payloads(reader)] == [4 * 1024 * 1024, 0]


@pytest.mark.parametrize("wrong", ["text", None, 7])
async def test_what_is_not_bytes_is_refused_and_no_other_entry_is_touched(
    client: LedgerClient, wrong: object
) -> None:
    writer = await client.create_ledger()
    first = await writer.append_async(b"good")
    with pytest.raises(TypeError, match="a payload must be bytes, bytearray or memoryview, not"):
        await writer.append_async(wrong)  # type: ignore[arg-type]
    assert (await first, await writer.append(b"next")) == (0, 1)
    await writer.close()
    reader = await client.open_ledger(writer.ledger_id)
    assert await payloads(reader) == [b"good", b"next"]


@pytest.mark.parametrize(
    ("size", "digest"), first_then_long([(1, DigestType.HMAC_SHA256), (0, DigestType.CRC32C)], in_rows=True)
)
async def test_very_many_tiny_entries_at_once_fit_messages_and_bounds(
    client: LedgerClient, size: int, digest: DigestType
) -> None:
    writer = await client.create_ledger(digest=digest, password=b"p")
    for _n in range(300_000):
        await writer.append_async(b"x" * size)
        assert writer.pending_bytes <= QUICK.pending_bytes_max + ENTRY_OVERHEAD_BYTES + size
    await writer.close()
    assert len(writer.record.fragments) == 1, "no bookie was taken for a failed one"
    reader = await client.open_ledger(writer.ledger_id, password=b"p")
    assert [e.entry_id async for e in reader.read(299_990)] == list(range(299_990, 300_000))


async def test_pending_bytes_are_bounded_and_a_full_writer_waits(cluster: InProcessCluster) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024)
    async with LedgerClient(cluster.uri, config=config) as bounded:
        writer = await bounded.create_ledger()
        for _n in range(400):
            await writer.append_async(bytes(50_000))
            assert writer.pending_bytes <= config.pending_bytes_max + 50_000
        await writer.close()


async def test_writing_goes_on_without_a_replacement_and_takes_the_bookie_back_when_it_returns(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    writer = await client.create_ledger()
    await writer.append(b"three copies")
    await cluster.stop("b2")
    for _ in range(20):
        await writer.append(b"two copies")
    await cluster.start("b2")

    while any(position.lane is None for position in writer._machine._positions):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await cluster.stop("b1")
    await writer.append(b"needs b2 and b3")
    await writer.close()
    assert len(writer.record.fragments) == 1, "a bookie that is back needs no change of metadata"
    reader = await client.open_ledger(writer.ledger_id)
    assert len(await payloads(reader)) == 22


async def test_too_few_live_bookies_end_the_writer_and_name_each(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, replace(QUICK, append_seconds_max=1, append_quorum_seconds_max=2)) as (
        cluster,
        client,
    ):
        writer = await client.create_ledger()
        await writer.append(b"x")
        await cluster.stop("b1")
        await cluster.stop("b2")
        with pytest.raises(NotEnoughBookies) as error:
            await writer.append(b"nobody")
        assert {"b1", "b2"} <= error.value.reasons.keys()


async def test_a_closed_writer_takes_nothing_more(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    await writer.append(b"x")
    await writer.close()
    await writer.close()
    with pytest.raises(LedgerClosed):
        await writer.append(b"late")


async def test_a_client_that_is_closed_leaves_no_append_without_an_answer(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    hasty = LedgerClient(cluster.uri)
    writer = await hasty.create_ledger()
    futures = [await writer.append_async(b"x" * 1000) for _ in range(2000)]
    await hasty.close()
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert {type(answer) for answer in answers} <= {int, LedgerClosed}
    confirmed = [answer for answer in answers if isinstance(answer, int)]
    reader = await client.open_ledger(writer.ledger_id)
    assert reader.last_add_confirmed >= len(confirmed) - 1


async def test_many_ledgers_are_made_and_written_at_once(client: LedgerClient) -> None:
    writers = await asyncio.gather(*(client.create_ledger() for _ in range(200)))
    assert len({writer.ledger_id for writer in writers}) == 200
    assert await asyncio.gather(*(writer.append(b"first") for writer in writers)) == [0] * 200
    await asyncio.gather(*(writer.close() for writer in writers))
