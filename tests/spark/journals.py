"""Journals made up for tests."""

from __future__ import annotations

from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, LAYOUT, NAMESPACE_ID, frames


async def write_segments(uri: str, journal_id: str, segments: list[tuple[int, int]]) -> None:
    """Finalized ones of made-up edits; formats the journal before its first."""
    async with QuorumJournalManager(uri, journal_id) as manager:
        if segments[0][0] == 1:
            await manager.format(NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT))
        await manager.recover_unfinalized_segments()
        for first, last in segments:
            async with await manager.start_log_segment(first, LAYOUT) as out:
                out.write_raw(frames(first, last), last - first + 1)
                out.set_ready_to_flush()
                await out.flush()
            await manager.finalize_log_segment(first, last)
