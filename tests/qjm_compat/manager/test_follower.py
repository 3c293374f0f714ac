"""A follower that has read more than the acceptors can tell of at the moment waits for them, and not for ever."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from qjm_compat import JournalConfig, JournalUnavailable, QuorumFailed
from qjm_compat.errors import NewerTxid, QuorumTimeout
from qjm_compat.manager import follower
from qjm_compat.manager.follower import Patience
from tests.qjm_compat.journals import manager_on, on_journal, write


def refused_by(*errors: Exception) -> QuorumFailed:
    return QuorumFailed("getJournaledEdits", 2, 3, {str(number): one for number, one in enumerate(errors)})


@pytest.mark.parametrize("acceptors", [1, 3])
async def test_a_follower_that_is_ahead_of_the_acceptors_goes_on_when_they_know_more(
    tmp_path: Path, acceptors: int
) -> None:
    async with on_journal(tmp_path, acceptors, config=JournalConfig(tail_poll_seconds=0.01)) as (_, writer):
        out = await writer.start_log_segment(1)
        await write(out, 3)
        with pytest.raises(QuorumFailed, match="but requested txns starting at 6"):
            await writer.journaled_edits(6)
        async with aclosing(writer.tail(6)) as edits:
            following = asyncio.create_task(anext(edits))
            done, _ = await asyncio.wait([following], timeout=3 * writer.config.tail_poll_seconds)
            assert not done
            await write(out, 3)
            assert (await following).txid == 6


async def test_a_follower_that_stays_ahead_is_told_so_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "BEHIND_SECONDS_MAX", 0.1)
    async with on_journal(tmp_path, 1) as (cluster, writer):
        await write(await writer.start_log_segment(1), 3)
        config = JournalConfig(tail_poll_seconds=0.01)
        async with manager_on(cluster.uri, config=config) as reader, aclosing(reader.tail(6)) as edits:
            with pytest.raises(QuorumFailed, match="Highest txn ID available in the journal is"):
                await anext(edits)


async def test_patience_begins_anew_with_every_answer_and_is_for_nothing_else() -> None:
    behind = refused_by(NewerTxid("a"), NewerTxid("b"))
    patience = Patience(0.05)
    for _ in range(3):
        patience.check(behind)
        await asyncio.sleep(0.06)
        patience.renew()
    patience.check(behind)
    with pytest.raises(QuorumFailed):
        patience.check(refused_by(NewerTxid("a"), JournalUnavailable("b")))
    with pytest.raises(QuorumTimeout):
        patience.check(QuorumTimeout("getJournaledEdits", 20, "all", {}))
    await asyncio.sleep(0.06)
    with pytest.raises(QuorumFailed):
        patience.check(behind)
