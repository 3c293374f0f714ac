"""The stream of selected ledgers, each delivered once it is closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ledgers import LedgerError
from metadata import opened_store
from metadata.records.cluster import revision_of
from metadata.records.ledger_ids import counted_end, retired_end
from metadata.records.ledger_record import Tombstone
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.record_decoding import refuse

from ..planning.options import LedgerOptions
from ..planning.partition import TaskPartition
from ..planning.ranges import LedgerRange
from ..planning.selection import Selection
from .gaps import Gaps, KnownId
from .losses import Seen, describe_lost, describe_retired, describe_rollback, describe_uncertain, losses
from .metadata_stream import LedgerStream, how_many_fit
from .offsets import NO_REVISION, OPEN_AHEAD_MAX, LedgersOffset

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LedgerListing:
    """The ledgers in the metadata from `first_ledger` on."""

    first_ledger: int
    counted_end: int
    """The id counter's next value, read before the listing."""
    revision: int = 0
    """The store's revision, read before the listing."""
    retired_end: int = 0
    """End of the retired ids: an unlisted id below this was deleted or never used."""
    known: list[KnownId] = field(default_factory=list)
    closed: dict[int, int] = field(default_factory=dict)
    """Selected closed ledgers, with the size of each in bytes."""
    open: set[int] = field(default_factory=set)
    """Selected ledgers that are not closed."""
    deleted: dict[int, int] = field(default_factory=dict)
    """Deleted ids that are in the selection, with the revision of each deletion."""

    @property
    def counted(self) -> list[KnownId]:
        """Known ids below the next value of the id counter. The others were chosen by hand; the unused ids between the
        counter and them are not gaps, because the counter has yet to assign those ids."""
        return [one for one in self.known if one.ledger_id < self.counted_end]

    @property
    def seen(self) -> Seen:
        """Information about these ledgers that is needed after they are deleted."""
        selected = frozenset(self.closed.keys() | self.open)
        others = frozenset(one.ledger_id for one in self.known) - selected - self.deleted.keys()
        return Seen(self.revision, selected, others)

    @property
    def end(self) -> int:
        """The id after the last counted one: ledgers may still be created with this id or a later one."""
        counted = self.counted
        return counted[-1].ledger_id + 1 if counted else self.first_ledger

    def are_gone(self, ledger_ids: Collection[int]) -> None:
        """Treats each of these ledgers that was deleted without a tombstone as deleted now, because the time of its
        deletion is unknown."""
        there = {one.ledger_id for one in self.known}
        for ledger_id in ledger_ids:
            if self.first_ledger <= ledger_id < self.retired_end and ledger_id not in there:
                self.deleted[ledger_id] = self.revision

    def add(self, found: VersionedRecord | Tombstone, selection: Selection) -> None:
        ledger_id = found.ledger_id
        if isinstance(found, Tombstone):
            self.known.append(KnownId(ledger_id))
            if selection.names(ledger_id) and not (selection.is_no_choice and found.is_of_log):
                self.deleted[ledger_id] = found.version
            return
        record = found.record
        self.known.append(KnownId(ledger_id, record.created_ms))
        if selection.wants(record) and record.is_closed:
            self.closed[ledger_id] = sum(extent.payload_bytes for extent in selection.extents(record))
        elif selection.wants(record):
            self.open.add(ledger_id)


async def listed(uri: str, selection: Selection, first_ledger: int) -> LedgerListing:
    """Lists every id from `first_ledger` on that has or had a ledger, up to the first one above all ids that may be
    selected."""
    async with opened_store(uri) as store:
        ends = await counted_end(store), await revision_of(store), await retired_end(store)
        listing = LedgerListing(first_ledger, *ends)
        async for one in LedgerStore(store).list_with_deleted(first_ledger, on_unreadable=refuse):
            listing.add(one, selection)
            if one.ledger_id > selection.highest:
                break
    return listing


class ClosedLedgersStream(LedgerStream):
    """Streams all selected ledgers, each once it is closed.

    A ledger named by its id (`ledgers=7`) must exist, unless its id is above all existing ones; in that case the stream
    waits for it. The stream ends with LedgerError if such a ledger does not exist although later ids are used, and if
    any selected ledger was deleted before it was read (see `losses`), unless the option failOnDataLoss is false. The
    stream does not see a ledger whose id was chosen by hand if that id is below those already delivered, and is used
    long after them.
    """

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._chosen = options.selection.text
        self._only: frozenset[int] | None = None
        self._gaps = Gaps()
        self._has_looked = False
        self._seen = Seen()
        self._settled = 0
        """Each ledger below this id was delivered, was deleted, or is not selected; no other id below it will be "
        "used."""

    def initialOffset(self) -> dict[str, Any]:
        return LedgersOffset(self._options.selection.lowest, chosen=self._chosen).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = LedgersOffset.from_json(start, self._chosen)
        first = max(offset.below, self._settled)
        listing = self._look(partial(listed, selection=self._options.selection, first_ledger=first))
        if listing is None:
            return start
        listing.are_gone({*self._options.selection.named, *self._seen.selected, *offset.unread})
        self._warn_of_retired(listing, offset)
        has_lost = self._judge(listing, offset)
        missing = self._missing(listing, offset)
        unread = {i for i in listing.closed.keys() | listing.open if not offset.has(i)}
        unsettled = unread | missing
        self._settled = min([listing.end, *unsettled])
        taken = self._taken(listing, offset, unsettled, limit)
        if not taken and not has_lost:
            return start
        after = replace(offset, batch=()).after(taken, unsettled.difference(taken), listing.end)
        return after.judged(listing.revision, unread.difference(taken) if self._by_custom else ()).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskPartition[LedgerRange]]:
        offset = LedgersOffset.from_json(end, self._chosen)
        return self._tasks(offset.batch) if start != end else []

    def _judge(self, listing: LedgerListing, offset: LedgersOffset) -> bool:
        """Returns whether anything was lost that the stream may skip. Raises LedgerError if the stream must not skip
        losses."""
        seen_revision = max(offset.revision, self._seen.revision)
        if went_back := listing.revision < seen_revision:
            self._go_on_without(describe_rollback(listing.revision, seen_revision))
        found = losses(
            listing.deleted.items(),
            offset,
            self._seen,
            named=self._options.selection.named,
            began_at=listing.revision,
            by_custom=self._by_custom,
        )
        if found.lost:
            self._go_on_without(describe_lost(found.lost))
        if found.uncertain:
            log.warning("%s", describe_uncertain(found.uncertain))
        self._seen = listing.seen
        return went_back or bool(found.lost)

    @property
    def _by_custom(self) -> bool:
        return bool(self._options.selection.custom)

    def _warn_of_retired(self, listing: LedgerListing, offset: LedgersOffset) -> None:
        """Warns that the stream was stopped for too long: an id that was used and retired in the meantime looks as if
        it had never been used."""
        if self._has_looked or offset.revision == NO_REVISION:
            return
        there, names = {one.ledger_id for one in listing.known}, self._options.selection.names
        gone = [i for i in range(listing.first_ledger, listing.retired_end) if names(i) and i not in there]
        if unknown := [i for i in gone if i not in listing.deleted and not offset.has(i)]:
            log.warning("%s", describe_retired(unknown))

    def _missing(self, listing: LedgerListing, offset: LedgersOffset) -> set[int]:
        """Returns a set with the first id that may still become a ledger; empty if there is no such id."""
        self._gaps.look(listing.counted, time.monotonic(), time.time_ns() // 1_000_000)
        self._check_named(listing, offset)
        self._has_looked = True
        missing = self._gaps.first(listing.counted, listing.first_ledger)
        return set() if missing is None else {missing}

    def _check_named(self, listing: LedgerListing, offset: LedgersOffset) -> None:
        """Raises LedgerError for a ledger that will never be created, instead of waiting for it silently."""
        awaited = [
            i for i in self._options.selection.named if listing.first_ledger <= i and not offset.has(i)
        ]
        there = {one.ledger_id for one in listing.known} | listing.deleted.keys() if awaited else set()
        # While the awaited ledger with the highest id is being created, a few later ids may be used. So once the stream
        # has looked at the listing, it waits for GAP_SECONDS before it treats the ledger as missing.
        passed = self._gaps.passed if self._has_looked else listing.end - 1
        for ledger_id in sorted(awaited):
            if ledger_id <= passed and ledger_id not in there:
                raise LedgerError(
                    f"ledger {ledger_id}, named in the option ledgers, does not exist, although later ones do: omit it "
                    "and use a new checkpointLocation, or start the stream again once it exists"
                )

    def _taken(
        self, listing: LedgerListing, offset: LedgersOffset, unsettled: set[int], limit: ReadLimit
    ) -> list[int]:
        """Returns the ledgers of the next batch."""
        due = {i: size for i, size in listing.closed.items() if not offset.has(i)}
        if self._available_now and self._only is None:
            self._only = frozenset(due)
        if self._only is not None:
            due = {i: size for i, size in due.items() if i in self._only}
        admitted = offset.admitted(due, unsettled.difference(due), listing.end)
        if due and not admitted:
            self._check_room(listing)
        return admitted[: how_many_fit([due[ledger_id] for ledger_id in admitted], limit)]

    def _check_room(self, listing: LedgerListing) -> None:
        """Raises LedgerError, or logs a warning, to report that nothing more can be delivered until the oldest missing
        ledger is delivered."""
        if self._settled in listing.open:
            raise LedgerError(
                f"ledger {self._settled} is open, and {OPEN_AHEAD_MAX} later ones have been delivered, which is "
                "the maximum that a checkpoint can list: close the ledger (with "
                f"`bookledger ledger recover {self._settled}` if its writer is gone), and start the stream again"
            )
        if self._settled == listing.end:
            raise LedgerError(
                f"{OPEN_AHEAD_MAX} ledgers whose ids were chosen above the cluster's id counter have been delivered, "
                "which is the maximum that a checkpoint can list: read such ledgers in a separate stream, with the "
                "option ledgers"
            )
        if self._available_now:
            raise LedgerError(
                f"id {self._settled} was taken and may still be used, and {OPEN_AHEAD_MAX} later ledgers have been "
                "delivered, which is the maximum that a checkpoint can list: run the stream without availableNow until "
                "it gets past this id"
            )
        log.warning(
            "before it continues, the stream waits for ledger %d: its id was taken and may still be used",
            self._settled,
            extra={"ledger": self._settled},
        )
