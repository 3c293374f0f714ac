"""Daemons of `journal serve` are killed while a writer calls them, and started again: what was confirmed is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import JournalError
from tests.qjm_compat.auditor import Confirmed, audit, confirmed_batch, differing_copies
from tests.qjm_compat.journals import NAMESPACE, frames, write_segment
from tests.support.aio import run
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal

FLUSHES, TXNS = 6, 3
STEPS = 1 + 2 * (2 + FLUSHES)
"""Of a writer's life: it takes over, and writes two segments, each begun, flushed so many times, and finalized."""

pytestmark = pytest.mark.timeout(300)


async def life(
    manager: QuorumJournalManager, prefix: str, notes: list[Confirmed]
) -> AsyncGenerator[Awaitable[None], None]:
    """Its steps, one by one; what a flush confirmed is noted."""
    last = 0

    async def take_over() -> None:
        nonlocal last
        recovered = await manager.recover_unfinalized_segments()
        last = recovered.end_txid if recovered is not None else 0

    yield take_over()
    for _ in range(2):
        first = last + 1
        starting = asyncio.ensure_future(manager.start_log_segment(first))
        yield _nothing(starting)
        out = starting.result()
        for _ in range(FLUSHES):
            records = frames(last + 1, TXNS, prefix)
            out.write_raw(records, TXNS)
            out.set_ready_to_flush()
            flushing = asyncio.ensure_future(out.flush())
            yield _nothing(flushing)
            notes.append(confirmed_batch(last + 1, last + TXNS, records, prefix))
            last = flushing.result()
        await out.close()
        yield manager.finalize_log_segment(first, last)


async def _nothing(step: Awaitable[object]) -> None:
    await step


async def interrupted(
    manager: QuorumJournalManager,
    prefix: str,
    notes: list[Confirmed],
    at: int,
    victims: list[JournalNodeDaemon],
) -> None:
    """A life in which the victims are killed while step `at` is under way, and started again at the next one."""
    number = 0
    async with aclosing(life(manager, prefix, notes)) as steps:
        async for step in steps:
            under_way = asyncio.ensure_future(step)
            if number == at:
                await asyncio.sleep(0)  # its calls go out
                for victim in victims:
                    victim.kill()
            elif number == at + 1:
                await started(victims)
            await under_way
            number += 1
    assert number == STEPS


async def started(nodes: list[JournalNodeDaemon]) -> None:
    """Those that do not run; they wait for their own lease to run out."""
    await asyncio.gather(*(asyncio.to_thread(node.start) for node in nodes if not node.is_running))


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_writer_was_confirmed_is_there_wherever_daemons_are_killed(
    count: int, uri: str, tmp_path: Path
) -> None:
    """One of three hinders no writer; all of them end it, and the next one recovers."""
    notes: list[Confirmed] = []
    journal_id = f"killed-{count}"

    async def scenario(nodes: list[JournalNodeDaemon]) -> None:
        where = qjournal([node.address for node in nodes], journal_id)
        async with QuorumJournalManager(where) as manager:
            await manager.format(NAMESPACE)
        for turn, at in enumerate((0, 1, 3, FLUSHES + 2, FLUSHES + 3, STEPS - 2)):
            victims = [nodes[(turn + n) % len(nodes)] for n in range(count)]
            async with QuorumJournalManager(where) as manager:
                if count == 1:
                    await interrupted(manager, f"w{turn}", notes, at, victims)
                else:
                    with suppress(JournalError):
                        await interrupted(manager, f"w{turn}", notes, at, victims)
            await started(victims)
        async with QuorumJournalManager(where) as manager:
            recovered = await manager.recover_unfinalized_segments()
            assert recovered is not None
            await write_segment(manager, recovered.end_txid + 1, recovered.end_txid + TXNS, "last")
            await audit(manager, notes)
            assert await differing_copies(manager) == []

    with journal_nodes(uri, tmp_path) as nodes:
        run(scenario(nodes), timeout_seconds=240)
        assert len(notes) >= (6 * 2 * FLUSHES if count == 1 else 2)
