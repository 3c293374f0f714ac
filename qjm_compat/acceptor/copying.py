"""Copies a segment from another acceptor into a ledger, verifying it in the process."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from ..batch import Batch
from ..edits import EditLogError, check_batch
from ..errors import SegmentUnreadable
from .acceptor_ledgers import AcceptorLedgers, BatchInFlight, NewSegment
from .edits_cache import cut
from .programs.acceptor_effects import Copied, CopySegment

BATCHES_UNDER_WAY_MAX = 64
"""Maximum number of a copy's batches in flight to disk; the ledger's writer limits their total size."""

Pace = Callable[[int], Awaitable[None]]
"""Waits until the given number of additional bytes may be copied."""


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """A segment's edits, starting with the batch that holds the requested txid."""

    layout_version: int
    in_progress: bool
    batches: AsyncGenerator[Batch, None]


class SegmentReader(Protocol):
    """A source of a segment's edits: a local or a remote acceptor."""

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        """Reads a segment. Raises SegmentUnreadable if the segment does not exist."""
        ...


async def copy_segment(
    source: SegmentReader, ledgers: AcceptorLedgers, wanted: CopySegment, pace: Pace | None = None
) -> Copied:
    """Copies exactly the wanted txids into a new closed ledger. If the copy fails, the ledger is deleted."""
    content = await source.read_segment(wanted.start_txid, wanted.start_txid)
    new = NewSegment(wanted.start_txid, content.layout_version, wanted.writer_epoch, wanted.end_txid)
    ledger_id = await ledgers.create(new)
    try:
        await _copy_batches(content, ledgers, ledger_id, wanted, pace)
        end = await ledgers.end(ledger_id)
        if end.end_txid != wanted.end_txid:
            raise SegmentUnreadable(f"the copy of {wanted} ends at txid {end.end_txid}")
    except BaseException:
        await ledgers.drop(ledger_id)
        raise
    return Copied(ledger_id, content.layout_version)


async def _copy_batches(
    content: SegmentContent,
    ledgers: AcceptorLedgers,
    ledger_id: int,
    wanted: CopySegment,
    pace: Pace | None = None,
) -> None:
    next_txid = wanted.start_txid
    under_way: deque[BatchInFlight] = deque()
    async with aclosing(content.batches) as batches:
        async for batch in batches:
            if next_txid > wanted.end_txid:
                break
            check_writer(batch, wanted)
            if pace is not None:
                await pace(len(batch.records))
            part = checked_part(batch, next_txid, wanted.end_txid)
            under_way.append(await ledgers.append(ledger_id, part))
            next_txid = part.last_txid + 1
            if len(under_way) > BATCHES_UNDER_WAY_MAX:
                await under_way.popleft().confirmed()
    for appended in under_way:
        await appended.confirmed()
    if next_txid <= wanted.end_txid:
        raise SegmentUnreadable(
            f"{wanted.source} provides segment {wanted.start_txid} only up to txid {next_txid - 1}, "
            f"not to {wanted.end_txid}"
        )


def check_writer(batch: Batch, wanted: CopySegment) -> None:
    """Raises SegmentUnreadable if another writer wrote the batch: a later recovery may have replaced the source's
    edits."""
    if wanted.writer_epoch and batch.writer_epoch not in (0, wanted.writer_epoch):
        raise SegmentUnreadable(
            f"at txid {batch.first_txid}, {wanted.source} has edits from the writer of epoch {batch.writer_epoch}, "
            f"not of epoch {wanted.writer_epoch}"
        )


def checked_part(batch: Batch, first_txid: int, last_txid: int) -> Batch:
    """Returns the part of a batch between these txids, with its frames verified. Raises SegmentUnreadable for a gap or
    damage."""
    first, last = max(first_txid, batch.first_txid), min(last_txid, batch.last_txid)
    if first != first_txid or last < first:
        raise SegmentUnreadable(f"txid {first_txid} is missing: the next batch begins at {batch.first_txid}")
    try:
        check_batch(batch.records, batch.first_txid, batch.num_txns)
        records = bytes(cut(batch, first, last))
    except EditLogError as error:
        raise SegmentUnreadable(f"the batch of txid {batch.first_txid} is damaged: {error}") from error
    return Batch(first, last - first + 1, records, batch.committed_txid, batch.writer_epoch)
