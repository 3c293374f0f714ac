"""Flushes that follow each other without waiting: their order, how many there may be, and what the empty ones say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qjm_compat import BadJournalState, JournalConfig, JournalUnavailable, QuorumFailed, QuorumTimeout
from qjm_compat.manager.output_stream import FLUSHES_UNDER_WAY_MAX
from qjm_compat.requests import SendEdits
from tests.qjm_compat.gates import gates_of
from tests.qjm_compat.journals import SOON, frames, on_journal, send, write
from tests.support.aio import cancel

ROOM = 2000
"""Bytes that may wait for one acceptor, where a test fills that up."""


async def test_flushes_follow_each_other_without_waiting_in_order_and_only_so_many(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,) = gates_of(manager)
        out = await manager.start_log_segment(1)
        gate.shut()
        sent = [await send(out) for _ in range(FLUSHES_UNDER_WAY_MAX)]
        one_more = asyncio.create_task(send(out))
        done, _ = await asyncio.wait([one_more], timeout=SOON)
        assert not done and out.committed_txid == 0
        gate.open()
        assert [await task for task in sent] == list(range(1, FLUSHES_UNDER_WAY_MAX + 1))
        assert await (await one_more) == FLUSHES_UNDER_WAY_MAX + 1
        batches = [call.first_txid for call in gate.called(SendEdits)]
        assert batches == list(range(1, FLUSHES_UNDER_WAY_MAX + 2))
        await out.close()


async def test_a_flush_of_nothing_ends_after_the_flushes_before_it_with_what_is_then_on_a_quorum(
    tmp_path: Path,
) -> None:
    """Two callers sync at once: the second has nothing to send, and must not call the first one's edits safe."""
    async with on_journal(tmp_path, 3) as (_, manager):
        _, b, c = gates_of(manager)
        out = await manager.start_log_segment(1)
        assert await (await out.flush_async()) == 0, "nothing was ever written"
        await write(out, 5)
        b.shut()
        c.shut()
        sent = [await send(out), await send(out)]
        nothing = await out.flush_async()
        done, _ = await asyncio.wait([nothing], timeout=SOON)
        assert not done
        assert (out.committed_txid, out.is_in_doubt) == (5, True)
        c.open()
        assert await nothing == 7
        assert [task.done() and task.result() for task in sent] == [6, 7]
        assert (out.committed_txid, out.is_in_doubt) == (7, False)


async def test_a_flush_of_nothing_behind_one_that_failed_does_not_end_well_and_leaves_its_edits_in_doubt(
    tmp_path: Path,
) -> None:
    async with on_journal(tmp_path, 3) as (_, manager):
        gates = gates_of(manager)
        out = await manager.start_log_segment(1)
        await write(out, 2)
        for gate in gates[1:]:
            gate.refusal = JournalUnavailable("its disks burn")
        sent = await send(out)
        nothing = await out.flush_async()
        for task in (sent, nothing):
            with pytest.raises(QuorumFailed, match="its disks burn"):
                await task
        assert (out.committed_txid, out.is_in_doubt) == (2, True)
        await out.abort()
        for gate in gates[1:]:
            gate.refusal = None
        for first_txid in (3, 4):  # at 3 there would be a second owner of the txid
            with pytest.raises(BadJournalState):
                await manager.start_log_segment(first_txid)


async def test_who_gives_up_a_flush_of_nothing_does_not_give_up_those_before_it(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        (gate,) = gates_of(manager)
        out = await manager.start_log_segment(1)
        gate.shut()
        sent = await send(out)
        nothing = await out.flush_async()
        await asyncio.wait([nothing], timeout=SOON)
        await cancel(nothing)
        gate.open()
        assert await sent == 1
        assert (out.committed_txid, out.is_in_doubt) == (1, False)


async def test_while_no_majority_has_room_the_next_flush_waits_instead_of_failing(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3, config=JournalConfig(queued_edits_bytes_max=ROOM)) as (_, manager):
        _, b, c = gates_of(manager)
        out = await manager.start_log_segment(1)
        b.shut()
        c.shut()
        sent: list[asyncio.Future[int]] = []
        queues = [logger.channel for logger in manager._set.loggers]
        while queues[1].queued_bytes + len(frames(out.next_txid, 1)) <= ROOM:
            sent.append(await send(out))
        assert 1 < len(sent) < FLUSHES_UNDER_WAY_MAX
        next_one = asyncio.create_task(send(out))
        done, _ = await asyncio.wait([next_one], timeout=SOON)
        assert not done and not any(task.done() for task in sent)
        assert queues[1].queued_bytes == queues[2].queued_bytes <= ROOM
        b.open()
        assert [await task for task in sent] == list(range(1, len(sent) + 1))
        assert await (await next_one) == len(sent) + 1
        c.open()
        assert await write(out) == len(sent) + 2


async def test_a_flush_that_waits_for_room_ends_with_the_stream(tmp_path: Path) -> None:
    """Nobody ever makes room: what was sent before runs out of time, and that is said to whoever waits."""
    config = JournalConfig(queued_edits_bytes_max=len(frames(1, 1)), write_txns_seconds_max=0.5)
    async with on_journal(tmp_path, 1, config=config) as (_, manager):
        (gate,) = gates_of(manager)
        out = await manager.start_log_segment(1)
        gate.shut()
        first = await send(out)
        second = asyncio.create_task(send(out))
        done, _ = await asyncio.wait([second], timeout=SOON)
        assert not done
        for waiting in (first, second):
            with pytest.raises(QuorumTimeout):
                await waiting
        assert out.is_in_doubt
