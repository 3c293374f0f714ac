"""Checks a bookie's entries against metadata that was restored from an older copy.

It reports mismatches; the metadata stays on hold until an operator has reviewed them (`metadata/backup/hold.py`). The
record of a ledger that is not closed may be older than the ledger in two cases: a note here describes a later state; or
there is no note, but this bookie holds entries of the last fragment although the record does not place them here. In
these cases the bookie adds itself to the record, and no client then closes the ledger on the basis of that record (rule
W8).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from metadata.backup import hold
from metadata.backup.hold import HoldKind, Misfits, Restored
from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.records.cluster import cluster_id
from metadata.records.ledger_record import BookieRef, LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.settled_writes import until_changed
from metadata.store import MetadataStore

from ...errors import BookieError
from ...storage.bookie import Bookie
from ..inventory.inventory import frames_elsewhere
from ..inventory.placed_entries import ENTRY_MAX
from ..inventory.premature_close import is_closed_early
from ..inventory.unknown_ids import give_no_id_twice
from ..polling import LOOK_SECONDS
from ..threads import in_thread
from .local_check import LocalCheck

log = logging.getLogger(__name__)


class RestoreCheck:
    """Compares one bookie's entries with the metadata, once for each restore. The comparison holds the lock `upkeep`,
    so that no frames are moved in the meantime."""

    def __init__(
        self,
        bookie: Bookie,
        store: MetadataStore,
        me: BookieRef,
        upkeep: asyncio.Lock,
        stock_taker: LocalCheck,
    ) -> None:
        self._bookie = bookie
        self._stock_taker = stock_taker
        self._store = store
        self._ledgers = LedgerStore(store)
        self._me = me
        self._upkeep = upkeep

    async def run(self) -> None:
        """Polls for a restore of the metadata, until cancelled."""
        while True:
            try:
                await self.look_once()
            except (BookieError, MetadataError, OSError) as error:
                log.log(
                    weight(error),
                    "cannot compare the ledgers here with the restored metadata yet: %s",
                    error,
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def look_once(self) -> None:
        """Reports mismatches, unless they have already been reported for this restore. Raises BookieError,
        MetadataError and OSError."""
        if await cluster_id(self._store) is None:
            return  # the store is empty, or a restore is running: there is nothing to compare with yet
        restored = await hold.read(self._store)
        if restored is None or self._me.bookie_id in await hold.read_misfits(self._store, restored):
            return
        await self._stock_taker.take_once()  # records which entries are missing
        async with self._upkeep:
            misfits = await self._compare(restored)
        # A bookie that hung during the restore has not noticed that the store's revision decreased.
        await self._bookie.checkpoint()
        await give_no_id_twice(
            self._store, self._me.bookie_id, await in_thread(self._bookie.index.ledger_ids)
        )
        await hold.publish_misfits(self._store, misfits)
        log.log(
            logging.INFO if misfits.fits else logging.ERROR,
            "the metadata was restored: it lacks %d of the ledgers on this bookie, and places entries of %d open "
            "and %d closed ledgers elsewhere; %d ledgers lack entries that it places here; %d ledgers were closed "
            "before entries that this bookie can prove were confirmed",
            misfits.unknown.ledgers,
            misfits.open_elsewhere.ledgers,
            misfits.closed_elsewhere.ledgers,
            misfits.lacking.ledgers,
            misfits.cut_short.ledgers,
        )

    async def _compare(self, restored: Restored) -> Misfits:
        await self._bookie.checkpoint()
        held = frozenset(await in_thread(self._bookie.index.ledger_ids))
        unknown = dict.fromkeys(
            sorted(held)
        )  # including ids that the metadata uses for another ledger (rule W8)
        elsewhere: dict[bool, list[int]] = {True: [], False: []}
        lacking: list[int] = []
        cut_short: list[int] = []
        async for found in self._ledgers.list_with_deleted():
            ledger_id, record = found.ledger_id, None if isinstance(found, Tombstone) else found.record
            if record is not None and (await self._lacks(record) or self._has_nothing_of(record, held)):
                lacking.append(ledger_id)
            if ledger_id not in unknown or self._bookie.holds_another(found):
                continue
            del unknown[ledger_id]
            if record is not None and is_closed_early(self._bookie, record):
                cut_short.append(ledger_id)
            if isinstance(found, VersionedRecord) and await self._is_elsewhere(found.record):
                elsewhere[found.record.is_closed].append(ledger_id)
                await self._be_named(found)
        return Misfits(
            self._me,
            restored.nonce,
            HoldKind.of(list(unknown)),
            open_elsewhere=HoldKind.of(elsewhere[False]),
            closed_elsewhere=HoldKind.of(elsewhere[True]),
            lacking=HoldKind.of(lacking),
            cut_short=HoldKind.of(cut_short),
        )

    async def _lacks(self, record: LedgerRecord) -> bool:
        """Returns whether this bookie lacks entries that the record marks as possibly missing; a reconstructed record
        marks all copies."""
        mine = (one for one in record.fragments if self._me in one.ensemble)
        may_lack = any(one.lacking_at(one.ensemble.index(self._me)) is not None for one in mine)
        return may_lack and bool(await self._stock_taker.missing(record))

    def _has_nothing_of(self, record: LedgerRecord, held: Collection[int]) -> bool:
        """Returns whether the bookie has no entries of an open ledger whose last fragment is placed here: the ledger
        may be empty, or may have been deleted after the backup was made, and then collected here."""
        is_open_here = not record.is_closed and self._me in record.fragments[-1].ensemble
        return is_open_here and record.ledger_id not in held

    async def _be_named(self, found: VersionedRecord) -> None:
        """Adds this bookie to the record if the bookie knows a later state of the ledger."""

        async def attempt(now: VersionedRecord | None) -> None:
            if now is not None and await in_thread(self._holds_more, now.record):
                named = now.record.left_by_writer(now.version).found_at(self._me)
                await self._ledgers.change(named, now.version)

        read = partial(self._ledgers.read_again, found.record)
        await until_changed(f"ledger {found.ledger_id}", found, attempt, read)

    def _holds_more(self, record: LedgerRecord) -> bool:
        last = record.fragments[-1]
        if record.is_closed or not record.identity or self._me in (*last.ensemble, *record.also_at):
            return False
        noted = self._bookie.index.notes.latest(record.ledger_id)
        if noted is not None and last.number:
            return noted.is_ahead_of(record)
        places = self._bookie.index.places(record.ledger_id)
        return any(place.last_entry >= last.first_entry for _, place in places)

    async def _is_elsewhere(self, record: LedgerRecord) -> bool:
        if all(self._me in fragment.ensemble for fragment in record.fragments):
            return False
        return await in_thread(self._holds_elsewhere, record)

    def _holds_elsewhere(self, record: LedgerRecord) -> bool:
        """Returns whether the bookie has entries, up to the ledger's end, that no fragment places here."""
        end = ENTRY_MAX if record.last_entry is None else record.last_entry
        return any(place.first_entry <= end for place in frames_elsewhere(self._bookie, record, self._me))
