"""Finds and deletes orphans: a journal's ledgers that nothing refers to, left by a crash between two steps.

A ledger is reported if the creation time in its record is old enough, but a wrong clock may have written that time.
Therefore a ledger is deleted only after this process has observed for the same minimum age, by its own monotonic clock,
that nothing refers to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ledgers import LedgerError, NoSuchLedger
from metadata.records.ledger_record import LedgerRecord

from ...acceptor.acceptor_ledgers import (
    ACCEPTOR_OF_LEDGER,
    JOURNAL_OF_LEDGER,
    SEGMENT_OF_LEDGER,
    AcceptorLedgers,
)
from ...edits import EditLogError, check_batch
from ...errors import JournalError, JournalUnavailable
from ..errors import TransferRefused
from ..inspection.acceptor_seen import AcceptorSeen
from ..inspection.inspector import JournalInspector
from .journal_findings import JournalFindings, Orphan

ORPHAN_AGE_SECONDS = 3600.0
"""The minimum age of an orphan. A ledger exists for a while before anything refers to it, for example while a copy is
written to it; that takes far less time than this."""


@dataclass(slots=True)
class Deleted:
    """The number of deleted orphans, and the orphans that were not deleted, each with the reason."""

    count: int = 0
    kept: list[Orphan] = field(default_factory=list)


async def find_orphans(
    inspector: JournalInspector, uri: str, found: JournalFindings, age_seconds: float
) -> list[Orphan]:
    """Returns the orphans of one cluster that are older than `age_seconds`. `why_kept` is set for an orphan that holds
    edits that `found` lacks, or that cannot be read.

    Raises JournalUnavailable unless all of the cluster's acceptors can be read, because a ledger that one of them needs
    is not an orphan.
    """
    labelled = await _labelled(inspector, uri, age_seconds)
    # Read after the listing, because a ledger that something refers to by then is not an orphan.
    acceptors = await inspector.look_at_others(uri)
    orphans = [_orphan(uri, record) for record in labelled if not _is_needed(acceptors, record.ledger_id)]
    return [replace(one, why_kept=await _why_keep(inspector, one, found)) for one in orphans]


def refuse_unless_whole(found: JournalFindings) -> None:
    """Raises TransferRefused if there are problems other than orphans: an orphan may then be the only copy of missing
    edits."""
    if found.problems_beside_orphans:
        raise TransferRefused(
            f"no orphan is deleted while the journal has other problems ({found.problems_beside_orphans}): "
            f"an orphan may hold the only copy of missing edits"
        )


async def delete_orphans(
    inspector: JournalInspector,
    found: JournalFindings,
    age_seconds: float = ORPHAN_AGE_SECONDS,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Deleted:
    """Deletes the orphans that a check found, if nothing refers to them `age_seconds` later and all their edits are in
    the journal or purged. Keeps those that the check found a reason to keep.

    Closes each ledger first, so that all of its entries are read. Raises TransferRefused if the check found problems
    other than orphans, and JournalUnavailable.
    """
    refuse_unless_whole(found)
    done = Deleted(kept=[orphan for orphan in found.orphans if orphan.why_kept is not None])
    deletable = [orphan for orphan in found.orphans if orphan.why_kept is None]
    if deletable and (left := seconds_until_old(found, age_seconds)):
        await wait(left)
    for orphan in deletable:
        if await _is_needed_now(inspector, orphan):
            continue
        why = await _why_keep(inspector, orphan, found, end=True)
        if why is not None:
            done.kept.append(replace(orphan, why_kept=why))
        elif not await _is_needed_now(inspector, orphan):
            done.count += await _delete(inspector, orphan)
    return done


def seconds_until_old(found: JournalFindings, age_seconds: float) -> float:
    """Returns how much longer this process must observe the orphans of the check before they may be deleted."""
    return max(0.0, found.orphans_seen_at + age_seconds - time.monotonic())


async def _is_needed_now(inspector: JournalInspector, orphan: Orphan) -> bool:
    return _is_needed(await inspector.look_at_others(orphan.metadata_uri), orphan.ledger_id)


async def _delete(inspector: JournalInspector, orphan: Orphan) -> bool:
    try:
        client = inspector.clients[orphan.metadata_uri]
        await client.delete_ledger(orphan.ledger_id, password=inspector.password, force=True)
    except NoSuchLedger:
        return False
    except LedgerError as error:
        raise JournalUnavailable(f"ledger {orphan.ledger_id} could not be deleted: {error}") from error
    return True


async def _why_keep(
    inspector: JournalInspector, orphan: Orphan, found: JournalFindings, *, end: bool = False
) -> str | None:
    """Returns the reason not to delete an orphan, or None if all its edits are in the journal or were purged."""
    if inspector.acceptors.get(orphan.acceptor) != orphan.metadata_uri:
        return f"acceptor {orphan.acceptor} was not examined"
    ledgers = inspector.ledgers(orphan.acceptor)
    try:
        if end:
            await ledgers.end(orphan.ledger_id)
        return await _not_held(ledgers, orphan.ledger_id, found)
    except (JournalError, EditLogError) as error:
        if isinstance(error.__cause__, NoSuchLedger):
            return None  # another process has deleted the ledger
        return f"it cannot be read: {error}"


async def _not_held(ledgers: AcceptorLedgers, ledger_id: int, found: JournalFindings) -> str | None:
    async with aclosing(ledgers.batches(ledger_id, 0)) as batches:
        async for batch in batches:
            check_batch(batch.records, batch.first_txid, batch.num_txns)
            txid = found.lacks(batch.first_txid, batch.last_txid)
            if txid is not None:
                return f"it holds txid {txid}, which no finalized segment has"
    return None


async def _labelled(inspector: JournalInspector, uri: str, age_seconds: float) -> list[LedgerRecord]:
    made_before_ms = inspector.now_ms() - age_seconds * 1000
    label = inspector.journal_id.encode()
    try:
        return [
            record
            async for record in inspector.clients[uri].list_ledgers()
            if record.custom_metadata.get(JOURNAL_OF_LEDGER) == label and record.created_ms <= made_before_ms
        ]
    except LedgerError as error:
        raise JournalUnavailable(f"the ledgers could not be listed: {error}") from error


def _is_needed(acceptors: Iterable[AcceptorSeen], ledger_id: int) -> bool:
    return any(acceptor.needs(ledger_id) for acceptor in acceptors)


def _orphan(uri: str, record: LedgerRecord) -> Orphan:
    labels = record.custom_metadata
    return Orphan(
        record.ledger_id,
        uri,
        labels.get(ACCEPTOR_OF_LEDGER, b"?").decode(errors="replace"),
        labels.get(SEGMENT_OF_LEDGER, b"?").decode(errors="replace"),
        record.length_bytes,
    )
