"""What reading from peers costs the bookies, and how it ends: nothing is left, nothing unfinished looks complete."""

from __future__ import annotations

import asyncio
import time

import pytest

from ledgers.config import MIB, ClientConfig
from ledgers.reading.range_read import ENTRY_COLUMN_BYTES
from tests.ledgers.reading.reading import BK0, BK1, BK2, PAGE_BYTES_MAX, DictionaryBookies, record_of
from tests.ledgers.recovering.peers import given, peers_on, silent, until_others_wait
from tests.support.aio import cancel


@pytest.mark.parametrize("size", [1000, MIB, 4 * MIB])
async def test_one_page_is_fetched_ahead_and_no_more_whatever_the_clients_settings(size: int) -> None:
    bookies = DictionaryBookies([size] * max(12, 12 * MIB // size))
    record, taken_bytes, most = record_of(bookies), 0, 0
    peers = peers_on(bookies, config=ClientConfig(read_ahead_pages=50))
    async for page in peers.entries(record, 0, len(bookies.sizes) - 1, without=BK0):
        taken_bytes += page.size_bytes
        await until_others_wait()
        most = max(most, bookies.given_bytes - taken_bytes)
    assert most <= PAGE_BYTES_MAX + ENTRY_COLUMN_BYTES
    assert bookies.under_way_most == 1
    assert bookies.given_entries == len(bookies.sizes)


async def test_another_bookie_is_asked_when_one_is_silent_but_later_than_a_client_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def seconds_to_read(config: ClientConfig) -> float:
        bookies, began = DictionaryBookies([10] * 20, before_answer=silent(BK1)), time.monotonic()
        assert await given(peers_on(bookies, config=config), record_of(bookies)) == list(range(20))
        return time.monotonic() - began

    monkeypatch.setattr("ledgers.recovering.cluster_peers.PATIENCE_SECONDS_MIN", 0.3)
    assert await seconds_to_read(ClientConfig(speculative_read_seconds=0.01)) > 0.25
    monkeypatch.setattr("ledgers.recovering.cluster_peers.PATIENCE_SECONDS_MIN", 0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await seconds_to_read(ClientConfig(speculative_read_seconds=None))


async def test_a_caller_that_is_cancelled_leaves_nothing_running_and_is_told_nothing_else() -> None:
    bookies = DictionaryBookies([10] * 20, before_answer=silent(BK1, BK2))
    reading = asyncio.create_task(given(peers_on(bookies), record_of(bookies)))
    await until_others_wait()
    await cancel(reading)
    assert reading.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
