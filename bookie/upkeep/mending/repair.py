"""Repair: copies from other replicas the entries that the metadata places on this bookie and that are missing from its
disk (rule R6).

A ledger leaves limbo in this order, so that a crash at any point leaves the ledger either in limbo or complete here:

1. It is closed, by recovery if necessary, because only a closed ledger has an end up to which it can be complete.
2. Every frame of the ledger here is read; missing entries are fetched and stored, synced.
3. A STATE record without limbo is synced; only then does the bookie answer "no such entry" again.

If some entries of a ledger could not be fetched, it stays in limbo and is reported; the next repair reuses the entries
that were copied.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from metadata.errors import MetadataError
from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from metadata.records.ledger_store import LedgerStore

from ...errors import BookieError, DiskIsFull
from ...index.frame_locations import FrameLocation
from ...log import segment_files
from ...log.format import place_of
from ...storage.bookie import Bookie
from ...storage.core import state_record
from ...storage.stored_frames import read_frame
from ...wire.columnar_entries import Columns
from ...wire.messages import EntryRange, Status
from ..inventory.entry_ranges import merged
from ..inventory.inventory import Inventory, span_of
from ..inventory.placed_entries import EVERY_ENTRY, EVERYTHING, parts
from ..repair_client import Peers, PeersFailed
from ..reports import RepairProgress, RepairReport, Summary, Tally
from ..threads import in_thread
from .gap_filling import Mender
from .healer import Healer
from .position_takeover import MayTake, PositionTakeover

log = logging.getLogger(__name__)

RECORDS_KEPT_MAX = 1000
"""Maximum number of ledger records cached during a pass; without the cache, a record would be read again for each of
the many frames that were rightly dropped but are still in the log."""


class Restorer:
    """Restores frames that the metadata places at `me`. Callers of `put_back` must hold the upkeep lock."""

    def __init__(self, bookie: Bookie, ledgers: LedgerStore, me: BookieRef, inventory: Inventory) -> None:
        self._bookie = bookie
        self._ledgers = ledgers
        self._me = me
        self._inventory = inventory
        self._records: OrderedDict[int, LedgerRecord | None] = OrderedDict()

    def begin_pass(self) -> None:
        """Clears the cache of records."""
        self._records.clear()

    async def put_back(self, ledger_id: int, places: Sequence[FrameLocation]) -> int:
        """Adds to the index those of these frames whose entries are missing here; returns the number of frames added.

        The index has committed them when this returns. Raises MetadataError.
        """
        record = await self._record(ledger_id)
        if record is None or self._bookie.holds_another(
            record
        ):  # deleted: its frames are about to be collected
            return 0
        restored = 0
        for place in places:
            if await self._inventory.missing(record, self._me, span_of(place), verify=False):
                restored += await self._add(record, place)
        if restored:
            await self._bookie.checkpoint()
        return restored

    async def _record(self, ledger_id: int) -> LedgerRecord | None:
        if ledger_id not in self._records:
            found = await self._ledgers.read(ledger_id)
            self._records[ledger_id] = None if found is None else found.record
            if len(self._records) > RECORDS_KEPT_MAX:
                self._records.popitem(last=False)
        return self._records[ledger_id]

    async def _add(self, record: LedgerRecord, place: FrameLocation) -> bool:
        ledger_id = record.ledger_id
        frame = await in_thread(read_frame, self._bookie.files, ledger_id, place, record.identity)
        if not isinstance(
            frame, Columns
        ):  # its segment was deleted before we had the lock, or the frame belongs to another ledger
            return False
        self._bookie.index.add(ledger_id, place)
        segment, offset = place_of(place.position)
        log.error(
            "restored entries %d to %d of ledger %d in the index, which had lost them: they are in %s at offset %d",
            place.first_entry,
            place.last_entry,
            ledger_id,
            segment_files.name_of(segment),
            offset,
            extra={"ledger": ledger_id},
        )
        return True


NEVER_HEARD_OF = "the metadata does not contain this ledger: is it the right store?"

COULD_NOT = (PeersFailed, MetadataError, DiskIsFull)
"""Errors that prevent the repair of a single ledger, but not of other ledgers."""


class Repair:
    """Repairs one bookie. Callers must hold the upkeep lock, but `progress` may be read at any time.

    `me` is the bookie as named in the metadata. The rate limit applies to the total of reads and fetches.
    """

    def __init__(
        self, bookie: Bookie, ledgers: LedgerStore, me: BookieRef, peers: Peers, pace: RateLimit
    ) -> None:
        self._bookie = bookie
        self._ledgers = ledgers
        self._me = me
        self._peers = peers
        self._inventory = Inventory(bookie, pace)
        self.mender = Mender(bookie, peers, self._inventory, pace)
        self.restorer = Restorer(bookie, ledgers, me, self._inventory)

    @property
    def progress(self) -> RepairProgress:
        """Progress of `repair_limbo` or `adopt`."""
        return self.mender.progress

    async def missing(
        self, record: LedgerRecord, *, within: EntryRange = EVERYTHING, verify: bool = False
    ) -> list[EntryRange]:
        """Returns the gaps (`entry_ranges.py`): entries in `within` that the metadata places here and this bookie
        cannot read.

        With `verify`, each frame is read. Otherwise the index is trusted for frames without holes. A ledger that is not
        closed has no end, so `within` must bound the search.
        """
        return await self._inventory.missing(record, self._me, within, verify=verify)

    async def repair_ledger(self, ledger_id: int) -> Tally:
        """Completes one ledger here, and then takes it out of limbo. Closes it if it is open.

        A deleted ledger's limbo is left unchanged. A ledger with a password stays in limbo if it is not closed, and the
        report states what its owner must do. Raises LogFailed and IndexUnusable; other errors are in the report.
        """
        tally = Tally(ledger_id)
        try:
            record = await self._ended(ledger_id, tally)
            if record is not None:
                placed = parts(record, self._me, [EVERYTHING])
                await self.mender.fill(record, placed, tally, without=self._me, examined=[EVERYTHING])
            if not tally.why_not:
                await self._leave_limbo(ledger_id)
        except COULD_NOT as error:
            tally.fail(str(error))
        return _log_failure(tally)

    async def fence(self, record: LedgerRecord) -> None:
        """Durably fences the ledger, so that its writer is refused here. Raises DiskIsFull and BookieError."""
        if self._bookie.holds_another(record):
            return
        status, detail = await self._bookie.fence(record.ledger_id, record.verifier, record.identity)
        if status is Status.READ_ONLY:
            raise DiskIsFull(detail)
        if status is not Status.OK:
            raise BookieError(f"ledger {record.ledger_id} could not be fenced here: {status} {detail}")

    async def repair_limbo(self) -> RepairReport:
        """Repairs all ledgers in limbo, one after another. Raises the same errors as `repair_ledger`."""
        await self._bookie.checkpoint()
        ledger_ids = await in_thread(self._in_limbo)
        summary = self._begin(len(ledger_ids))
        for ledger_id in ledger_ids:
            summary.add(await self.repair_ledger(ledger_id))
            self.progress.ledgers_done += 1
        await self._bookie.checkpoint()
        return summary.report()

    async def mend(self, ledger_id: int, suspected: Sequence[FrameLocation]) -> Tally:
        """Replaces those of the suspected frames that are unreadable: fetches those of their entries that belong on
        this bookie, and removes the frames.

        Recovers no ledgers. A frame of a ledger that is not closed is left in place, and its readers get an I/O error,
        unless another frame here contains its entries. Raises the same errors as `repair_ledger`.
        """
        bad = await self._inventory.unreadable(ledger_id, suspected)
        tally = Tally(ledger_id, frames_unreadable=len(bad))
        if not bad:
            return tally
        try:
            found = await self._ledgers.read(ledger_id)
            if found is not None:
                await self._replace(found.record, bad, tally)
            elif await self._ledgers.tombstone(ledger_id) is None:
                tally.fail(NEVER_HEARD_OF)
        except COULD_NOT as error:
            tally.fail(str(error))
        return _log_failure(tally)

    async def adopt(
        self, bookie_id: str, *, living: str | None, may_take: MayTake = lambda _: True
    ) -> RepairReport:
        """Takes over the positions of a lost bookie of this name, which may be a former incarnation of this bookie.

        `living` is the incarnation that is registered under the name, or None; positions of that incarnation, and of
        this bookie itself, are not taken over. Every entry is on disk here before the metadata names this bookie.
        Fragments that already name this bookie, and those that `may_take` rejects, are left unchanged and reported.
        Raises MetadataError if the ledgers cannot be listed, in which case nothing was done; otherwise the same errors
        as `repair_ledger`.
        """
        alive = {self._me} | ({BookieRef(bookie_id, living)} if living else set())
        healer = Healer(self._ledgers, self._me, self.mender)
        adoption = PositionTakeover(self._ledgers, self._me, self._peers, healer, bookie_id, alive, may_take)
        ledger_ids = await adoption.ledgers()
        summary = self._begin(len(ledger_ids))
        for ledger_id in ledger_ids:
            tally = Tally(ledger_id)
            try:
                await adoption.adopt(tally)
            except COULD_NOT as error:
                tally.fail(str(error))
            summary.add(_log_failure(tally))
            self.progress.ledgers_done += 1
        return summary.report()

    # --- steps -------------------------------------------------------------------------------

    def _begin(self, ledgers: int) -> Summary:
        self.mender.progress = RepairProgress(ledgers)
        return Summary()

    def _in_limbo(self) -> list[int]:
        return [state.ledger_id for state in self._bookie.index.states() if state.limbo]

    async def _replace(self, record: LedgerRecord, bad: Sequence[FrameLocation], tally: Tally) -> None:
        spans = merged(map(span_of, bad))
        # A recovery may have written entries here that the record does not place here until the recovery closes the
        # ledger (rule R4).
        wanted = [(EVERY_ENTRY, span) for span in spans]
        if record.is_closed:
            wanted = parts(record, self._me, spans)
        await self.mender.fill(record, wanted, tally, without=self._me, examined=spans, unreadable=bad)

    async def _ended(self, ledger_id: int, tally: Tally) -> LedgerRecord | None:
        """Returns the part of the ledger that is placed here, as a closed ledger, or None if the ledger is deleted.

        Does not close a ledger whose writer may continue without this bookie, because no more entries of such a ledger
        are written to this bookie.
        """
        found = await self._ledgers.read(ledger_id)
        if found is not None and (found.record.is_closed or not self._may_be_fenced(found.record)):
            return found.record.closed_part() or found.record
        record = None if found is None else await self._peers.recover(ledger_id)
        if record is None and await self._ledgers.tombstone(ledger_id) is None:
            tally.fail(NEVER_HEARD_OF)
        return record

    def _may_be_fenced(self, record: LedgerRecord) -> bool:
        # A writer whose last ensemble names this bookie is already refused here, because a ledger in limbo is fenced.
        return record.state is LedgerState.IN_RECOVERY or self._me in record.fragments[-1].ensemble

    async def _leave_limbo(self, ledger_id: int) -> None:
        """Durably takes the ledger out of limbo. The state in memory is updated from the record written."""
        state = self._bookie.states.peek(ledger_id)
        if state.limbo:
            await self._bookie.store([state_record(replace(state, limbo=False))])


def _log_failure(tally: Tally) -> Tally:
    if tally.why_not:
        log.error(
            "ledger %d was not repaired: %s",
            tally.ledger_id,
            tally.why_not,
            extra={"ledger": tally.ledger_id},
        )
    return tally
