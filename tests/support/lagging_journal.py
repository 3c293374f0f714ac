"""A journal of which one acceptor lags: real segments at journal daemons, the last of which is killed meanwhile."""

from __future__ import annotations

import asyncio
import json

from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.acceptor.one_writer import edits
from tests.support.http import get
from tests.support.journal_node_daemons import JournalNodeDaemon, qjournal
from tests.support.waiting import until

SEGMENTS = (1, 4, 7)
"""Their first transactions; the last one stays in progress."""


async def write_lagging_journal(nodes: list[JournalNodeDaemon], url: str) -> None:
    """Two segments, the second without the last node, and the beginning of a third. `url`: of a console."""
    async with QuorumJournalManager(qjournal([one.address for one in nodes])) as manager:
        await manager.format(NamespaceInfo(7, "CID-x", layout_version=-63))
        await manager.recover_unfinalized_segments()
        for first in SEGMENTS:
            out = await manager.start_log_segment(first)
            out.write_raw(edits(first, first + 2, 1), 3)
            out.set_ready_to_flush()
            await out.flush()
            await out.close()
            if first < SEGMENTS[-1]:
                await manager.finalize_log_segment(first, first + 2)
            if first == SEGMENTS[0]:  # a quorum has it, and the last one soon
                await asyncio.to_thread(until, lambda: _finalized(url) == [3, 3, 3])
                await asyncio.to_thread(nodes[-1].kill)


def _finalized(url: str) -> list[int | None]:
    """The last finalized transaction of each acceptor."""
    (found,) = json.loads(get(f"{url}/api/v1/journals")[1])["journals"]
    return [one["last_finalized_txid"] for one in found["acceptors"]]
