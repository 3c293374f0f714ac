"""A follower reads on where one acceptor is dead and another lacks edits, as long as one has them finalized."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from ledgers.tasks import end_tasks
from tests.qjm_compat.faulty import Down, FaultyManager
from tests.qjm_compat.journals import ACCEPTORS, NAMESPACE, write_segment
from tests.support.in_process import on_bookies


async def write_while_the_third_is_away(
    manager: FaultyManager, third: Down, segments: Sequence[tuple[int, int]], missed: Sequence[int]
) -> None:
    for first, last in segments:
        third.is_down = first in missed
        await write_segment(manager, first, last)
    third.is_down = False


@pytest.mark.parametrize("missed", [[4], [7], [1, 4], [4, 7], [1, 4, 7], [1]])
async def test_edits_that_only_one_living_acceptor_has_are_followed(
    tmp_path: Path, missed: Sequence[int]
) -> None:
    segments = [(1, 3), (4, 6), (7, 9)]
    async with on_bookies(tmp_path, 3) as (cluster, _):
        plans = [Down(), Down(), Down()]
        async with FaultyManager(cluster.uri, ACCEPTORS, plans, "ns1") as writer:
            await writer.format(NAMESPACE)
            await writer.recover_unfinalized_segments()
            await write_while_the_third_is_away(writer, plans[2], segments, missed)
        dead = [Down(), Down(), Down()]
        dead[0].is_down = True
        async with (
            FaultyManager(cluster.uri, ACCEPTORS, dead, "ns1") as reader,
            aclosing(reader.tail(1)) as edits,
        ):
            assert [(await anext(edits)).txid for _ in range(9)] == list(range(1, 10))
            following = asyncio.create_task(anext(edits))
            done, _ = await asyncio.wait([following], timeout=3 * reader.config.tail_poll_seconds)
            assert not done, "there is nothing new, and nobody has failed but the dead one"
            await end_tasks([following])
