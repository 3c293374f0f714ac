"""Purges old segments on command: becomes the writer, then deletes the segments at a majority."""

from __future__ import annotations

from ..aio import QuorumJournalManager
from .errors import TransferRefused
from .inspection.inspector import JournalInspector


async def purge_journal(
    journal: QuorumJournalManager, inspector: JournalInspector, min_txid_to_keep: int, *, take_over: bool
) -> None:
    """Briefly becomes the writer and deletes, at a majority, the segments that end before a txid.

    Raises TransferRefused if a segment is in progress and `take_over` is false, or if the txid is after the end of the
    journal. Raises QuorumFailed.
    """
    in_progress = await inspector.in_progress()
    if in_progress is not None and not take_over:
        raise TransferRefused(
            f"{in_progress}, is in progress: its writer may be alive, and purging by hand would fence it; "
            f"the writer also purges on its own; take over if it is dead"
        )
    if in_progress is None:
        await _refuse_beyond(journal, inspector, min_txid_to_keep)
    await journal.recover_unfinalized_segments()
    if in_progress is not None:  # the end of that segment is known only now
        await _refuse_beyond(journal, inspector, min_txid_to_keep)
    await journal.purge(min_txid_to_keep)


async def _refuse_beyond(
    journal: QuorumJournalManager, inspector: JournalInspector, min_txid_to_keep: int
) -> None:
    """Raises TransferRefused if edits that do not exist yet would be purged."""
    ends = [one.state.purged_below - 1 for one in (await inspector.look_at_all()).values()]
    ends += [
        stream.last_txid
        for stream in await journal.select_input_streams(0, in_progress_ok=True, gaps_ok=True)
    ]
    last = max((0, *ends))
    if min_txid_to_keep > last + 1:
        raise TransferRefused(
            f"journal {journal.journal_id} ends with txid {last}: {min_txid_to_keep} cannot be the first txid "
            f"to keep; the maximum is {last + 1}"
        )
