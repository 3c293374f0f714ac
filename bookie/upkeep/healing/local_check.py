"""Local consistency check: slowly compares a bookie's index, ledger by ledger, with the entries placed on the bookie.

It repairs nothing: it records in the ledger's record which entries are missing, and sets an under-replication mark for
the replication worker. Thus, one round finds losses that had gone unnoticed, whether because a writer died or because
the index lost rows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from metadata.backup import hold
from metadata.healing.marks import Marks
from metadata.rate_limit import LEDGERS_PER_SECOND, RateLimit
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.settled_writes import until_changed
from metadata.store import MetadataStore

from ...storage.bookie import Bookie
from ...upkeep_config import UpkeepConfig
from ...wire.messages import EntryRange
from ..collecting.note_updates import keep_notes, missing_notes
from ..inventory.inventory import Inventory
from ..inventory.placed_entries import EVERYTHING
from ..polling import poll

log = logging.getLogger(__name__)

FIRST_ROUND_SECONDS = 60.0
"""Seconds from the bookie's start to its first local check and first scrub, because serving has priority."""

FOUND = "local check: bookie %s lacks entries %d to %d"


@dataclass(slots=True)
class Stock:
    """Results of a round, updated while it runs."""

    ledgers: int = 0
    ledgers_lacking: int = 0


class LocalCheck:
    """Checks one bookie. Each check holds the lock `upkeep`, so that no frames are moved during the check."""

    def __init__(
        self,
        bookie: Bookie,
        store: MetadataStore,
        me: BookieRef,
        inventory: Inventory,
        upkeep: asyncio.Lock,
        config: UpkeepConfig,
        clock: Callable[[], float],
    ) -> None:
        self._bookie = bookie
        self._ledgers = LedgerStore(store)
        self._marks = Marks(store)
        self._me = me
        self._inventory = inventory
        self._upkeep = upkeep
        self._config = config
        self._pace = RateLimit(LEDGERS_PER_SECOND)
        self._clock = clock

    async def run(self) -> None:
        """Runs a round every `stock_seconds`, until cancelled or the log has failed. The first begins within
        FIRST_ROUND_SECONDS."""
        await poll(
            self.take_once,
            log,
            "the local check was interrupted, and will be retried when it is due",
            seconds=self._config.stock_seconds,
            first_seconds=min(self._config.stock_seconds, FIRST_ROUND_SECONDS),
            pause_seconds=0.0,
        )

    async def take_once(self) -> Stock:
        """Runs one round. Raises BookieError, MetadataError and OSError; findings made before the error have
        already been reported."""
        stock = Stock()
        async for found in self._ledgers.list():
            if self._may_lack(found.record):
                await self._pace.keep(1)
                stock.ledgers += 1
                stock.ledgers_lacking += await self._look_at(found)
                if missing_notes(self._bookie, found.record, self._me):
                    await self._keep_notes(found.record.ledger_id)
        return stock

    def _may_lack(self, record: LedgerRecord) -> bool:
        part = record.closed_part()
        return part is not None and any(self._me in fragment.ensemble for fragment in part.fragments)

    async def look_again(self, ledger_id: int) -> None:
        """Checks a ledger with unreadable entries. Raises MetadataError."""
        await self._look_at(await self._ledgers.read(ledger_id))

    async def missing(self, record: LedgerRecord) -> list[EntryRange]:
        """Returns the entries that the record places here and that are missing, except those that are still being
        written. Callers must hold the upkeep lock."""
        part = record.closed_part()
        return [] if part is None else await self._inventory.missing(part, self._me, EVERYTHING, verify=False)

    async def _look_at(self, found: VersionedRecord | None) -> bool:
        """Checks one ledger; returns whether it found missing entries that had not been reported yet."""
        if found is None:
            return False
        read = partial(
            self._ledgers.read, found.ledger_id
        )  # other replicas may report their own gaps at the same time
        return await until_changed(f"ledger {found.ledger_id}", found, self._report_missing, read)

    async def _keep_notes(self, ledger_id: int) -> None:
        """Updates the notes from the current record, unless the metadata has reverted to an older copy, because the
        notes would then become outdated."""
        async with self._upkeep:
            found = await self._ledgers.read(ledger_id)
            if found is not None and await hold.read(self._ledgers.store) is None:
                await keep_notes(self._bookie, found.record, self._me)

    async def _report_missing(self, found: VersionedRecord | None) -> bool:
        """Checks the ledger against this version of its record, as `_look_at` does. Raises KeyConflict if there is a
        newer version."""
        if found is None or not self._may_lack(found.record):
            return False
        part = found.record.closed_part()
        assert part is not None
        async with self._upkeep:
            if self._bookie.states.peek(part.ledger_id).limbo:
                return False  # the replication worker repairs it
            gaps = await self._inventory.missing(part, self._me, EVERYTHING, verify=False)
        reported = _with_gaps(found.record, part, self._me, gaps)
        if reported == found.record:
            return False
        log.error(
            FOUND + " of ledger %d",
            self._me,
            gaps[0].first_entry,
            gaps[-1].last_entry,
            part.ledger_id,
            extra={"ledger": part.ledger_id},
        )
        await self._ledgers.change(reported.left_by_writer(found.version), found.version)
        reason = FOUND % (self._me, gaps[0].first_entry, gaps[-1].last_entry)
        await self._marks.set(part.ledger_id, [reason], int(self._clock() * 1000))
        return True


def _with_gaps(
    record: LedgerRecord, part: LedgerRecord, me: BookieRef, gaps: list[EntryRange]
) -> LedgerRecord:
    """Returns the record with this bookie's gaps added."""
    for fragment, last in part.spans():
        if me not in fragment.ensemble or last is None:
            continue
        position = fragment.ensemble.index(me)
        for gap in gaps:
            first, end = max(gap.first_entry, fragment.first_entry), min(gap.last_entry, last)
            if first <= end:
                record = record.with_lacking(position, first, end)
    return record
