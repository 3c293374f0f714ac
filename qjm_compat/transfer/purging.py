"""Forgetting old segments by command, and knowing that they are forgotten."""

from __future__ import annotations

from ..aio import QuorumJournalManager
from .errors import TransferRefused
from .survey import Survey


async def purge_journal(
    journal: QuorumJournalManager, survey: Survey, min_txid_to_keep: int, *, take_over: bool
) -> None:
    """Becomes the writer for a moment and deletes what ends before a txid, at a majority.

    Raises TransferRefused where a segment is in progress and is not to be taken over, QuorumFailed.
    """
    in_progress = await survey.in_progress()
    if in_progress is not None and not take_over:
        raise TransferRefused(
            f"{in_progress}, is in progress: its writer may be alive, and purging by hand would fence it; "
            f"it purges by itself, or take over if it is dead"
        )
    await journal.recover_unfinalized_segments()
    await journal.purge(min_txid_to_keep)
