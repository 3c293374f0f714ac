"""Taking over a lost bookie's places in the ledgers: another one's, or those of this bookie's own former self.

For one ledger, in this order, so that a crash at any point leaves the old record, under which what was copied is
garbage (`collector.py` drops it, under the lock that is held here), or the new one with every entry here:

1. It is closed: recovered where it was not.
2. All that the old places hold is fetched and stored here, synced; what stands here already is read and counts.
3. One compare-and-swap puts this bookie into the old places. On a conflict all is decided anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence

from metadata.errors import NoSuchKey, VersionConflict
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from metadata.records.ledger_store import LedgerStore, VersionedRecord

from ..inventory.placed import Part, shares
from ..peers import Peers
from .mending import Mender, Tally

TRIES_MAX = 5
"""How often a ledger is decided anew whose record somebody else keeps changing."""

WRITTEN_ELSEWHERE = (
    "the ledger is not closed and its last ensemble does without the lost bookie, so its writer may well live: "
    "adopt again when it is closed, or close it with `bookledger ledger recover`"
)
STANDS_THERE = "another bookie has to take the place from entry %s on: this one is in that ensemble already"
FRAGMENTS_NAMED_MAX = 10
KEEPS_CHANGING = "the ledger's record kept changing: try again"


class Adoption:
    """Puts `me` into the places of every `bookie_id` that is not in `alive`. Callers hold the lock of all upkeep."""

    def __init__(
        self,
        ledgers: LedgerStore,
        me: BookieRef,
        peers: Peers,
        mender: Mender,
        bookie_id: str,
        alive: Collection[BookieRef],
    ) -> None:
        self._ledgers = ledgers
        self._me = me
        self._peers = peers
        self._mender = mender
        self._bookie_id = bookie_id
        self._alive = alive

    async def ledgers(self) -> Sequence[int]:
        """The ledgers that name the lost bookie. Raises MetadataError."""
        found = array("q")
        async for one in self._ledgers.list():
            if self._lost(one.record):
                found.append(one.record.ledger_id)
        return found

    async def adopt(self, tally: Tally) -> None:
        """Takes over one ledger's places; what cannot be done is in the tally.

        Raises PeersFailed, MetadataError and DiskIsFull: what was copied may be there, and the record is as it was.
        """
        for _ in range(TRIES_MAX):
            if await self._is_decided(tally):
                return
        tally.fail(KEEPS_CHANGING)

    async def _is_decided(self, tally: Tally) -> bool:
        """One try on the record as it is now; False where it was changed meanwhile."""
        found = await self._ledgers.read(tally.ledger_id)
        lost = [] if found is None else self._lost(found.record)
        if found is None or not lost:
            return True
        if not found.record.is_closed:
            return not await self._close(found.record, lost, tally)
        ours = await self._copied(found.record, lost, tally)
        if tally.why_not:
            return True
        return await self._move(found, lost, ours, tally)

    async def _close(self, record: LedgerRecord, lost: Collection[BookieRef], tally: Tally) -> bool:
        """Whether the record is another now."""
        in_use = record.fragments[-1].ensemble
        # A writer that lives would have replaced it.
        if record.state is LedgerState.OPEN and not any(one in in_use for one in lost):
            tally.fail(WRITTEN_ELSEWHERE)
            return False
        await self._peers.recover(record.ledger_id)
        return True

    async def _copied(self, record: LedgerRecord, lost: Iterable[BookieRef], tally: Tally) -> LedgerRecord:
        """The record with us in all places that we can take, whose entries are here where the tally is clean."""
        ours = record
        for old in lost:
            taken = {f.first_entry for f in record.fragments if f.admits(self._me, in_place_of=old)}
            if taken:
                await self._mender.fill(record, _parts(record, old, taken), tally, without=old)
                ours = ours.moved(old, self._me)
        return ours

    async def _move(
        self, found: VersionedRecord, lost: Iterable[BookieRef], ours: LedgerRecord, tally: Tally
    ) -> bool:
        """Whether the metadata names us now, wherever it can."""
        if ours != found.record:
            try:
                await self._ledgers.change(ours, found.version)
            except (VersionConflict, NoSuchKey):
                return False
        pairs = zip(found.record.fragments, ours.fragments, strict=True)
        tally.fragments_moved = sum(before != after for before, after in pairs)
        left = [str(f.first_entry) for f in ours.fragments if not set(lost).isdisjoint(f.ensemble)]
        if left:
            tally.fail(STANDS_THERE % ", ".join(left[:FRAGMENTS_NAMED_MAX]))
        return True

    def _lost(self, record: LedgerRecord) -> list[BookieRef]:
        """Everybody of the name whom the record names and who is no more."""
        named = {bookie for fragment in record.fragments for bookie in fragment.ensemble}
        return sorted(one for one in named if one.bookie_id == self._bookie_id and one not in self._alive)


def _parts(record: LedgerRecord, bookie: BookieRef, fragments: Collection[int]) -> list[Part]:
    """All that those of its fragments place at a bookie which begin at these entries."""
    held = [share for share in shares(record, bookie) if share.first_entry in fragments]
    return [(share, part) for share in held if (part := share.between(share.first_entry, share.last_entry))]
