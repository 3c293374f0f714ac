"""A follower of a journal of large edits: what it is given at a time is bounded in bytes, and nothing is left out."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from qjm_compat import JournalConfig
from qjm_compat.acceptor import journal
from qjm_compat.aio import QuorumJournalManager
from tests.qjm_compat.journals import frames, manager_on, on_journal, write
from tests.support.aio import until_true

BATCHES, TXNS = 12, 3
LAST = BATCHES * TXNS
BATCH_BYTES = len(frames(1, TXNS))
AT_A_TIME = 3 * BATCH_BYTES

CACHED = JournalConfig(ensemble_size=1)
WITHOUT_CACHE = JournalConfig(ensemble_size=1, edits_cache_bytes_max=1)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TAIL_BYTES_MAX", AT_A_TIME)


async def until_shown(manager: QuorumJournalManager, txid: int) -> None:
    """What is confirmed last is told to the bookies, and so to readers of the ledgers, a moment later."""

    async def shown() -> bool:
        return await manager.journaled_edits(txid) is not None

    await until_true(shown)


async def parts(manager: QuorumJournalManager) -> list[bytes]:
    """All edits as a follower is given them."""
    found: list[bytes] = []
    next_txid = 1
    while (batch := await manager.journaled_edits(next_txid)) is not None:
        assert batch.first_txid == next_txid
        found.append(batch.records)
        next_txid = batch.last_txid + 1
    return found


def assert_bounded(given: list[bytes]) -> None:
    assert b"".join(given) == frames(1, LAST)
    assert max(map(len, given)) < AT_A_TIME + BATCH_BYTES + 10
    assert len(given) <= BATCHES // 2, "as many batches at a time as the bound lets in"


@pytest.mark.parametrize("acceptors", [1, 3])
@pytest.mark.parametrize("config", [CACHED, WITHOUT_CACHE], ids=["from memory", "from ledgers"])
async def test_a_follower_is_given_so_many_bytes_at_a_time_and_all_in_the_end(
    tmp_path: Path, acceptors: int, config: JournalConfig
) -> None:
    async with on_journal(tmp_path, acceptors, config=config) as (cluster, manager):
        out = await manager.start_log_segment(1)
        for _ in range(BATCHES):
            await write(out, TXNS)

        await until_shown(manager, LAST)
        assert_bounded(await parts(manager))
        await out.close()
        await manager.finalize_log_segment(1, LAST)
        async with manager_on(cluster.uri, acceptors, config=config) as reader:
            assert_bounded(await parts(reader))
            async with aclosing(reader.tail(1)) as ops:
                assert [(await anext(ops)).txid for _ in range(LAST)] == list(range(1, LAST + 1))


@pytest.mark.parametrize("config", [CACHED, WITHOUT_CACHE], ids=["from memory", "from ledgers"])
async def test_a_batch_beyond_the_bound_is_given_nevertheless(tmp_path: Path, config: JournalConfig) -> None:
    async with on_journal(tmp_path, 1, config=config) as (_, manager):
        out = await manager.start_log_segment(1)
        many = 2 * BATCHES * TXNS
        for _ in range(2):
            await write(out, many)
        await until_shown(manager, 2 * many)
        for first_txid in (1, many + 1):
            batch = await manager.journaled_edits(first_txid)
            assert batch is not None
            assert batch.records == frames(first_txid, many)
