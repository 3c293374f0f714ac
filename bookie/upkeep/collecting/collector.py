"""Garbage collection: forgets deleted ledgers, and drops frames that the metadata places on other bookies (B3).

A ledger is forgotten only if its own key in the metadata marks it as deleted, in two separate reads: the first covers
the keys of all ledgers stored here, and the second is made just before the ledger is forgotten. An id without a key
proves nothing: the store may be the wrong one, or restored from a backup. A forgotten ledger stays closed to late
writers: on an append to it, the bookie consults the metadata, which does not contain the ledger (`verifiers.py`).

After a complete round, the bookie records in the metadata the revision up to which it has dropped deleted ledgers;
tombstones up to the lowest revision of all bookies are retired (`metadata/healing/collection_progress.py`). An index
rebuilt from the log contains ledgers that were forgotten long ago. Only an operator can confirm that they had been
forgotten, and order the bookie to forget them again.

Frames of a closed ledger that no fragment places here (the bookie was replaced, or a repair has moved them) are
dropped. Only this bookie's own repair stores entries of closed ledgers here before the metadata places them here, and
the upkeep lock prevents repair and collection from running at the same time; the record is read again under that lock.
If this bookie can prove that entries past the end of a closed ledger were confirmed, the entire ledger is kept, because
the bookie may have the last copies of those entries.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from metadata import keys
from metadata.backup import hold
from metadata.healing import collection_progress
from metadata.rate_limit import RateLimit
from metadata.records import cluster, ledger_ids
from metadata.records.cluster import Cookie, revision_of
from metadata.records.ledger_record import BookieRef, LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ...errors import DataDirectoryError
from ...index.frame_locations import FrameLocation
from ...storage.bookie import Bookie
from ..inventory.inventory import frames_elsewhere
from ..inventory.premature_close import is_closed_early
from ..threads import in_thread
from .note_updates import keep_notes

log = logging.getLogger(__name__)

LEDGERS_PER_BATCH = 1000
"""Maximum number of ledgers forgotten in one transaction of the index."""

FRAMES_PER_BATCH = 10_000
"""Maximum number of frames dropped in one transaction of the index."""


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """Result of one collection. `unlisted` ledgers are on disk but not in the metadata; they are kept.

    `held_back`: whether nothing was collected because the metadata was restored from a backup.
    """

    ledgers_forgotten: int = 0
    frames_dropped: int = 0
    unlisted: int = 0
    held_back: bool = False


@dataclass(slots=True)
class _Listing:
    deleted: list[Tombstone] = field(default_factory=list)
    elsewhere: list[int] = field(default_factory=list)
    unlisted: set[int] = field(default_factory=set)


class Collector:
    """Runs garbage collection for one bookie. Callers must hold the upkeep lock."""

    def __init__(
        self, bookie: Bookie, store: MetadataStore, cookie: Cookie, pace: RateLimit, returned: int = 0
    ) -> None:
        """`returned`: if the bookie returned after older metadata had been accepted, the number of that acceptance
        (`Accepted.number`); otherwise 0."""
        self._returned = returned
        self._bookie = bookie
        self._store = store
        self._ledgers = LedgerStore(store)
        self._cookie = cookie
        self._me = BookieRef(cookie.bookie_id, cookie.incarnation)
        self._pace = pace

    async def collect(self, *, also_misplaced: bool, also_retired: bool = False) -> CollectionResult:
        """Forgets deleted ledgers; with `also_misplaced`, also drops frames that the metadata places on other bookies.

        With `also_retired`, it also forgets ledgers without a key in the metadata if their ids are below the end of
        the retired ids.

        Raises MetadataError if the metadata fails; by then, only ledgers whose deletion the metadata had confirmed have
        been forgotten.
        """
        if await hold.read(self._store) is not None:
            log.warning(
                "nothing is collected, because the metadata was restored; run: bookledger metadata check"
            )
            return CollectionResult(held_back=True)
        revision = await revision_of(self._store)
        in_memory = self._bookie.states.outdate_lookups()
        await self._bookie.checkpoint()
        here = await in_thread(self._bookie.index.ledger_ids)
        listing = await self._compare(here, in_memory)
        forgotten = await self._forget_deleted(listing.deleted)
        if forgotten == len(listing.deleted):
            await collection_progress.note(self._store, self._me, revision)
            if also_retired:
                forgotten += await self._forget_retired(listing.unlisted)
        if listing.unlisted:
            log.warning(
                "%d ledgers that are stored here are missing from the metadata; they are kept",
                len(listing.unlisted),
            )
        also_misplaced = also_misplaced and not await self._was_away()
        dropped = await self._drop_misplaced(listing.elsewhere) if also_misplaced else 0
        return CollectionResult(forgotten, dropped, len(listing.unlisted))

    async def _was_away(self) -> bool:
        """Returns whether the ledgers' records may be older than the entries here, because these records have not been
        checked since this bookie returned."""
        one = await hold.accepted(self._store) if self._returned else None
        return one is not None and one.number == self._returned and one.is_without(self._me)

    async def _compare(self, here: Sequence[int], in_memory: Sequence[int] = ()) -> _Listing:
        if await cluster.cluster_id(self._store) != self._cookie.cluster_id:
            raise DataDirectoryError("the metadata belongs to another cluster; nothing is collected")
        listing = _Listing(unlisted=set(here))
        async for found in self._ledgers.look_up(sorted({*here, *in_memory})):
            if self._bookie.holds_another(found):
                continue  # the id was used twice; the metadata contains the ledger that is not stored here (rule W8)
            listing.unlisted.discard(found.ledger_id)
            if isinstance(found, Tombstone):
                listing.deleted.append(found)
            elif self._is_elsewhere(found.record):
                listing.elsewhere.append(found.ledger_id)
        return listing

    def _is_elsewhere(self, record: LedgerRecord) -> bool:
        """Returns whether part of a closed ledger is placed on other bookies, and that placement is final.

        The placement is not final if a copy lacks entries, or if the ledger was closed too early: in these cases this
        bookie may have the last copy (H1).
        """
        is_whole = not record.may_lack_entries
        is_placed_elsewhere = is_whole and not all(self._me in f.ensemble for f in record.fragments)
        return record.is_closed and is_placed_elsewhere and not is_closed_early(self._bookie, record)

    async def _forget_deleted(self, deleted: list[Tombstone]) -> int:
        forgotten = 0
        for start in range(0, len(deleted), LEDGERS_PER_BATCH):
            batch = []
            for one in deleted[start : start + LEDGERS_PER_BATCH]:
                await self._pace.keep(1)
                if await self._ledgers.tombstone(one.ledger_id) == one:
                    batch.append(one.ledger_id)
            await self._bookie.forget(batch)
            forgotten += len(batch)
        return forgotten

    async def _forget_retired(self, unlisted: set[int]) -> int:
        """Forgets retired ledgers. Each id is looked up again, because the listing omits records that cannot be
        decoded."""
        end, retired = await ledger_ids.retired_end(self._store), list[int]()
        for one in sorted(unlisted):
            if one < end and await self._store.get(keys.ledger(one)) is None:
                retired.append(one)
        for start in range(0, len(retired), LEDGERS_PER_BATCH):
            await self._bookie.forget(retired[start : start + LEDGERS_PER_BATCH])
        unlisted.difference_update(retired)
        return len(retired)

    async def _drop_misplaced(self, ledger_ids: list[int]) -> int:
        dropped = 0
        for ledger_id in ledger_ids:
            await self._pace.keep(1)
            found = await self._ledgers.read(ledger_id)
            if (
                found is None
                or not self._is_elsewhere(found.record)
                or self._bookie.holds_another(found.record)
            ):
                continue
            await keep_notes(
                self._bookie, found.record, self._me
            )  # done before frames are dropped, because a note may record the location of the only copy
            misplaced = await in_thread(self._misplaced, found.record)
            for start in range(0, len(misplaced), FRAMES_PER_BATCH):
                await self._bookie.drop(misplaced[start : start + FRAMES_PER_BATCH])
            dropped += len(misplaced)
        return dropped

    def _misplaced(self, record: LedgerRecord) -> list[tuple[int, FrameLocation]]:
        return [(record.ledger_id, place) for place in frames_elsewhere(self._bookie, record, self._me)]
