"""Repairs the index: restores frames that are in the log and missing from the index."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore

from ...index.places import FrameLocation
from ...log import segments
from ...log.format import place_of
from ...storage.bookie import Bookie
from ...storage.frames import read_frame
from ...wire.columns import Columns
from ..inventory.inventory import Inventory, span_of
from ..threads import in_thread

log = logging.getLogger(__name__)

RECORDS_KEPT_MAX = 1000
"""Ledger records cached during a pass, because the log also has many frames that were rightly dropped."""


class Restorer:
    """Restores frames that the metadata places at `me`. Callers of `put_back` hold the lock of all upkeep."""

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
        """Adds those of these frames to the index whose entries are missing here; returns their number.

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
        ):  # its segment was deleted before we had the lock, or it is another ledger's
            return False
        self._bookie.index.add(ledger_id, place)
        segment, offset = place_of(place.position)
        log.error(
            "restored entries %d to %d of ledger %d in the index, which had lost them: they are in %s at offset %d",
            place.first_entry,
            place.last_entry,
            ledger_id,
            segments.name_of(segment),
            offset,
            extra={"ledger": ledger_id},
        )
        return True
