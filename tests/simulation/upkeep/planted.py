"""Rules of upkeep broken on purpose, one at a time; each names what it is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from bookie.index.frame_locations import FrameLocation
from bookie.index.index import Index
from bookie.index.local_ledger_state import Fence
from bookie.index.usage import UsageTable
from bookie.log import manifest
from bookie.storage import page_reader, stored_frames
from bookie.storage.bookie import Bookie
from bookie.storage.core import state_record
from bookie.storage.ledger_states import LedgerStates
from bookie.storage.page_reader import PageReader
from bookie.upkeep.collecting import compactor
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.collecting.compactor import Compactor
from bookie.upkeep.inventory.inventory import Inventory
from bookie.upkeep.mending import gap_filling, limbo
from bookie.upkeep.mending.gap_filling import Mender
from bookie.upkeep.mending.repair import Repair
from bookie.upkeep.reports import Tally
from bookie.wire import NO_ENTRIES, Columns
from metadata.errors import MetadataError
from metadata.healing import collection_progress
from metadata.records.cluster import revision_of
from metadata.records.ledger_record import LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch

forget_deleted = Collector._forget_deleted


# --- compaction ---------------------------------------------------------------------------------


@instead_of(Compactor, "empty", within=20, known=1)
async def deletes_a_segment_before_the_checkpoint(self: Compactor, segment: int) -> Any:
    """Step 2: the copies are synced, and the index points into the segment still."""
    moved = await self._move_frames(segment)
    (now,) = [one for one in self._sealed() if one.number == segment]
    await self._move_states(segment)
    return (await self._delete([now])).plus(compactor.CompactionResult(bytes_moved=moved))


@around(Compactor, "_delete", within=400, known=7)
async def writes_the_manifest_after_the_deletion(delete: Real, self: Compactor, empty: Sequence[Any]) -> Any:
    """Step 3: a crash in between leaves a segment missing, and nothing says that it was dropped."""
    if empty:
        await self._bookie.remove_segments({one.number for one in empty})
    return await delete(self, empty)


@instead_of(Compactor, "_move_states", within=150, known=15)
async def does_not_move_states(self: Compactor, segment: int) -> None:
    """R1: a fence goes with its segment; only the index has it then."""


@instead_of(Compactor, "_has_copy", within=150, known=1)
def takes_another_frame_for_a_copy(self: Compactor, found: Any, place: FrameLocation) -> bool:
    """A frame with the same place in its ledger, whatever can be read there, needs no copy."""
    first = place.first_entry
    others = self._bookie.index.holding(found.record.ledger_id, first, first, (), 64)
    return any(
        one.position > place.position and one == place._replace(position=one.position) for one in others
    )


@around(Compactor, "empty", within=150, known=23)
async def drops_a_segment_that_cannot_be_read(empty: Real, self: Compactor, segment: int) -> Any:
    """R6: what could not be moved is taken for moved."""
    done = await empty(self, segment)
    if done.segments_kept:
        places = [one for one in self._bookie.index.places() if one[1].position >> 32 == segment]
        await self._bookie.drop(places)
    return done


@instead_of(Index, "remove", within=20, known=1)
def does_not_take_the_originals_out_of_the_index(*_: Any) -> None:
    """The index points to the copies and into the segment, for ever."""


@around(Compactor, "_copies", within=50, known=1)
def keeps_recovery_writes_under_a_wrong_name(copies: Real, self: Compactor, batch: Any) -> Any:
    """A copy is stored under the ledger of the frame that was moved before it."""
    records = copies(self, batch)
    return [one._replace(ledger_id=records[0].ledger_id) for one in records]


@around(UsageTable, "change", within=20, known=1)
def does_not_subtract_usage(
    change: Real, self: UsageTable, txn: Any, added: Any, gone: Any, states: Any
) -> Any:
    """Segments never look empty."""
    return change(self, txn, added, (), states)


@instead_of(manifest, "check_complete", within=500, known=3)
def forgets_the_manifest(*_: Any) -> None:
    """B2: a segment that is missing was always dropped with leave."""


# --- collection ---------------------------------------------------------------------------------


@bug(within=50, known=12)
def believes_a_partial_listing(patch: Patch) -> None:
    """B3: a listing that fails has come to its end, and what it does not name is deleted."""
    listed = LedgerStore.list_with_deleted

    async def broken(self: LedgerStore, *about: Any, **options: Any) -> Any:
        try:
            async for one in listed(self, *about, **options):
                yield one
        except MetadataError:
            return

    patch.setattr(LedgerStore, "list_with_deleted", broken)
    forgets_unlisted_ledgers(patch)


@bug(within=50, known=0)
def forgets_unlisted_ledgers(patch: Patch) -> None:
    """B3: what the metadata has never heard of is taken for deleted."""
    compare = Collector._compare

    async def broken(self: Collector, here: Any, *in_memory: Any) -> Any:
        listing = await compare(self, here, *in_memory)
        listing.deleted += map(Tombstone, sorted(listing.unlisted))
        return listing

    patch.setattr(Collector, "_compare", broken)
    does_not_ask_once_more(patch)


@instead_of(Collector, "_forget_deleted", within=50, known=0)
async def does_not_ask_once_more(self: Collector, ledger_ids: list[int]) -> int:
    """B3: the listing alone decides."""
    await self._bookie.forget(ledger_ids)
    return len(ledger_ids)


@bug(within=500, known=86)
def drops_misplaced_frames_of_open_ledgers(patch: Patch) -> None:
    """R4: what a recoverer has written back here is not in the metadata yet."""

    def is_elsewhere(self: Collector, record: LedgerRecord) -> bool:
        return not all(self._me in fragment.ensemble for fragment in record.fragments)

    def misplaced(self: Collector, record: LedgerRecord) -> list[tuple[int, FrameLocation]]:
        if record.is_closed:
            return was(self, record)
        last = record.fragments[-1]
        if self._me in last.ensemble:
            return []
        places = self._bookie.index.places(record.ledger_id)
        return [one for one in places if one[1].first_entry >= last.first_entry]

    was = Collector._misplaced
    patch.setattr(Collector, "_is_elsewhere", is_elsewhere)
    patch.setattr(Collector, "_misplaced", misplaced)


@instead_of(Bookie, "forget", within=50, known=5)
async def forgets_nothing(self: Bookie, ledger_ids: Collection[int]) -> None:
    """B3: a deleted ledger stays for ever."""
    self.states.forget(ledger_ids)


@instead_of(LedgerStates, "forget")
def keeps_what_is_looked_up_while_it_forgets(self: LedgerStates, ledger_ids: Collection[int]) -> None:
    """B3: the state of a deleted ledger comes back from the index into memory, and stays there."""
    self.forgets += 1
    for ledger_id in ledger_ids:
        state = self._held.get(ledger_id)
        if state is not None and state.fence is not Fence.PENDING:
            del self._held[ledger_id]


@around(collection_progress, "note", within=2500, known=1807)
async def tells_of_a_round_what_came_after_it_began(note: Real, store: Any, me: Any, _: int) -> None:
    """B3: what was deleted while the keys were read counts as dropped."""
    await note(store, me, await revision_of(store))


@instead_of(Collector, "_forget_deleted", within=400, known=37)
async def tells_of_a_round_before_it_has_forgotten(self: Collector, deleted: Any) -> Any:
    """B3: a crash in between leaves ledgers whose tombstones may go."""
    await collection_progress.note(self._store, self._me, await revision_of(self._store))
    return await forget_deleted(self, deleted)


# --- limbo and repair ---------------------------------------------------------------------------


@bug(within=30, known=2)
def limbo_is_not_durable(patch: Patch) -> None:
    """R6: ledgers are in limbo in memory only."""

    async def broken(bookie: Bookie, ledgers: LedgerStore, me: Any) -> int:
        async for found in ledgers.list():
            if limbo._names(found.record, me):
                limbo._in_limbo(bookie, found.record)
        await bookie.leave_loss_behind()
        return 0

    patch.setattr(limbo, "enter_limbo", broken)
    patch.setattr("tests.simulation.upkeep.life.enter_limbo", broken)


@bug(within=800, known=117)
def forgets_a_loss_that_it_has_checkpointed(patch: Patch) -> None:
    """R6: the first start after a salvage goes past the LOST records, and the next one knows nothing of them."""
    begin_log = Bookie._begin_log

    def broken(self: Bookie, *arguments: Any) -> None:
        with patch.context() as inner:
            inner.setattr(Index, "set_limbo_due", lambda *_: None)
            begin_log(self, *arguments)

    patch.setattr(Bookie, "_begin_log", broken)


@around(limbo, "_in_limbo", within=30, known=2)
def leaves_open_ledgers_without_a_fence_in_limbo(in_limbo: Real, bookie: Bookie, record: LedgerRecord) -> Any:
    """R1: the fence may be among what was lost."""
    state = bookie.states.hold(record.ledger_id)
    was = state.fence
    in_limbo(bookie, record)
    state.fence = was
    return state_record(state)


@around(Repair, "repair_ledger", within=200, known=5)
async def leaves_limbo_before_the_entries_are_there(repair_ledger: Real, self: Repair, ledger_id: int) -> Any:
    """R6: step 3 comes before step 2."""
    await self._leave_limbo(ledger_id)
    return await repair_ledger(self, ledger_id)


@instead_of(Tally, "fail", within=150, known=11)
def leaves_limbo_whatever_could_not_be_had(*_: Any) -> None:
    """R6: a repair that failed is done."""


@around(Mender, "fill", within=150, known=11)
async def forgets_a_damaged_frame_before_its_entries_are_there(
    fill: Real, self: Mender, record: Any, parts: Any, tally: Any, **options: Any
) -> None:
    """R6: the index points to it no more, and nothing stands elsewhere yet."""
    parts = list(parts)
    for share, asked in parts:
        async for window in self._inventory.windows(record.ledger_id, share, asked, verify=True):
            for place in window.unreadable:
                self._bookie.index.remove(record.ledger_id, place)
    await self._bookie.checkpoint()
    await fill(self, record, parts, tally, **options)


@bug(within=60, known=3)
def believes_frames_that_it_has_not_read(patch: Patch) -> None:
    """R6: a repair takes the index's word for it, also where a frame could not be read."""
    windows = Inventory.windows

    def unverified(self: Inventory, *about: Any, verify: Any) -> Any:
        return windows(self, *about, verify=False)

    patch.setattr(Inventory, "windows", unverified)
    patch.setattr(stored_frames.SegmentFiles, "doubt", lambda self, places: None)


@around(Mender, "fill")
async def looks_for_damage_only_where_something_is_placed(
    fill: Real, self: Mender, *arguments: Any, **options: Any
) -> None:
    """A damaged frame behind the end of a closed ledger is pointed to for ever, and its segment stays."""
    options.pop("unreadable", None)
    await fill(self, *arguments, **options)


@instead_of(gap_filling.Mender, "_fetch", within=30, known=2)
async def names_itself_before_it_has_the_entries(self: Any, *_: Any, **__: Any) -> None:
    """W3: the metadata says that entries are here which were not fetched."""


# --- page_reader, states ----------------------------------------------------------------------------


@bug(within=50, known=3)
def takes_damage_for_absence(patch: Patch) -> None:
    """R6, F11: a record that cannot be read holds nothing."""
    read_frame = stored_frames.read_frame

    def broken(*arguments: Any) -> Columns:
        columns = read_frame(*arguments)
        return columns if isinstance(columns, Columns) else NO_ENTRIES

    patch.setattr(page_reader, "read_frame", broken)


@instead_of(LedgerStates, "shrink", within=20, known=1)
def holds_every_state(_: LedgerStates) -> None:
    """What is held in memory grows with the ledgers."""


@instead_of(PageReader, "read")
async def does_not_look_up_again(self: Any, *asked: Any) -> Any:
    """A read that compaction has overtaken calls entries damaged that have only moved."""
    return (await self._read_once(*asked))[1]


@instead_of(PageReader, "read")
async def looks_again_only_while_places_change(self: Any, *asked: Any) -> Any:
    """A frame moves between a second look-up and its page_reader, on a page that has damage of its own."""
    places, page = await self._read_once(*asked)
    while page.damaged:
        seen = places
        places, page = await self._read_once(*asked)
        if places == seen:
            break
    (request,) = asked
    is_sure = await self._may_deny(request.ledger_id, request.first_entry, page)
    return page if is_sure else page_reader._unsure(request.first_entry, page)
