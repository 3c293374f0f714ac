"""Rules of upkeep broken on purpose, one at a time; each names what it is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from bookie.index.index import Index
from bookie.index.ledger_state import Fence
from bookie.index.places import FrameLocation
from bookie.index.usage import UsageTable
from bookie.log import manifest
from bookie.log.format import Record
from bookie.storage import frames, page_reader, reading
from bookie.storage.bookie import Bookie
from bookie.storage.core import state_record
from bookie.storage.ledger_states import LedgerStates
from bookie.upkeep.collecting import compactor
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.collecting.compactor import Compactor
from bookie.upkeep.inventory.inventory import Inventory
from bookie.upkeep.mending import gap_filling, limbo
from bookie.upkeep.mending.gap_filling import Mender, Tally
from bookie.upkeep.mending.repair import Repair
from bookie.wire import NO_ENTRIES, Columns
from metadata.errors import MetadataError
from metadata.records.ledger_record import LedgerRecord, Tombstone
from metadata.records.ledger_store import LedgerStore
from tests.simulation.engine.planted import Plant

Patch = pytest.MonkeyPatch


# --- compaction ---------------------------------------------------------------------------------


def deletes_a_segment_before_the_checkpoint(patch: Patch) -> None:
    """Step 2: the copies are synced, and the index points into the segment still."""

    async def broken(self: Compactor, segment: int) -> Any:
        moved = await self._move_frames(segment)
        (now,) = [one for one in self._sealed() if one.number == segment]
        await self._move_states(segment)
        return (await self._delete([now])).plus(compactor.Compacted(bytes_moved=moved))

    patch.setattr(Compactor, "empty", broken)


def writes_the_manifest_after_the_deletion(patch: Patch) -> None:
    """Step 3: a crash in between leaves a segment missing, and nothing says that it was dropped."""
    delete = Compactor._delete

    async def broken(self: Compactor, empty: Sequence[Any]) -> Any:
        if empty:
            await self._bookie.remove_segments({one.number for one in empty})
        return await delete(self, empty)

    patch.setattr(Compactor, "_delete", broken)


def does_not_move_states(patch: Patch) -> None:
    """R1: a fence goes with its segment; only the index has it then."""

    async def broken(self: Compactor, segment: int) -> None:
        """Nothing is moved."""

    patch.setattr(Compactor, "_move_states", broken)


def takes_another_frame_for_a_copy(patch: Patch) -> None:
    """A frame with the same place in its ledger, whatever can be read there, needs no copy."""

    def broken(self: Compactor, found: Any, place: FrameLocation) -> bool:
        first = place.first_entry
        others = self._bookie.index.holding(found.record.ledger_id, first, first, (), 64)
        return any(
            one.position > place.position and one == place._replace(position=one.position) for one in others
        )

    patch.setattr(Compactor, "_has_copy", broken)


def drops_a_segment_that_cannot_be_read(patch: Patch) -> None:
    """R6: what could not be moved is taken for moved."""
    empty = Compactor.empty

    async def broken(self: Compactor, segment: int) -> Any:
        done = await empty(self, segment)
        if done.segments_kept:
            places = [one for one in self._bookie.index.places() if one[1].position >> 32 == segment]
            await self._bookie.drop(places)
        return done

    patch.setattr(Compactor, "empty", broken)


def does_not_take_the_originals_out_of_the_index(patch: Patch) -> None:
    """The index points to the copies and into the segment, for ever."""
    patch.setattr(Index, "remove", lambda *_: None)


def keeps_recovery_writes_under_a_wrong_name(patch: Patch) -> None:
    """A copy is stored under the ledger of the frame that was moved before it."""
    copies = Compactor._copies

    def broken(self: Compactor, batch: Any) -> list[Record]:
        records = copies(self, batch)
        return [one._replace(ledger_id=records[0].ledger_id) for one in records]

    patch.setattr(Compactor, "_copies", broken)


def does_not_subtract_usage(patch: Patch) -> None:
    """Segments never look empty."""
    change = UsageTable.change
    patch.setattr(
        UsageTable, "change", lambda self, txn, added, gone, states: change(self, txn, added, (), states)
    )


def forgets_the_manifest(patch: Patch) -> None:
    """B2: a segment that is missing was always dropped with leave."""
    patch.setattr(manifest, "check_complete", lambda *_: None)


# --- collection ---------------------------------------------------------------------------------


def believes_a_partial_listing(patch: Patch) -> None:
    """B3: a listing that fails has come to its end, and what it does not name is deleted."""
    listed = LedgerStore.list_with_deleted

    async def broken(self: LedgerStore) -> Any:
        try:
            async for one in listed(self):
                yield one
        except MetadataError:
            return

    patch.setattr(LedgerStore, "list_with_deleted", broken)
    forgets_unlisted_ledgers(patch)


def forgets_unlisted_ledgers(patch: Patch) -> None:
    """B3: what the metadata has never heard of is taken for deleted."""
    compare = Collector._compare

    async def broken(self: Collector, here: Any) -> Any:
        listing = await compare(self, here)
        listing.deleted += map(Tombstone, sorted(listing.unlisted))
        return listing

    patch.setattr(Collector, "_compare", broken)
    does_not_ask_once_more(patch)


def does_not_ask_once_more(patch: Patch) -> None:
    """B3: the listing alone decides."""

    async def broken(self: Collector, ledger_ids: list[int]) -> int:
        await self._bookie.forget(ledger_ids)
        return len(ledger_ids)

    patch.setattr(Collector, "_forget_deleted", broken)


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


def forgets_nothing(patch: Patch) -> None:
    """B3: a deleted ledger stays for ever."""

    async def broken(self: Bookie, ledger_ids: Collection[int]) -> None:
        self.states.forget(ledger_ids)

    patch.setattr(Bookie, "forget", broken)


def keeps_what_is_looked_up_while_it_forgets(patch: Patch) -> None:
    """B3: the state of a deleted ledger comes back from the index into memory, and stays there."""

    def broken(self: LedgerStates, ledger_ids: Collection[int]) -> None:
        self.forgets += 1
        for ledger_id in ledger_ids:
            state = self._held.get(ledger_id)
            if state is not None and state.fence is not Fence.PENDING:
                del self._held[ledger_id]

    patch.setattr(LedgerStates, "forget", broken)


# --- limbo and repair ---------------------------------------------------------------------------


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


def forgets_a_loss_that_it_has_checkpointed(patch: Patch) -> None:
    """R6: the first start after a salvage goes past the LOST records, and the next one knows nothing of them."""
    begin_log = Bookie._begin_log

    def broken(self: Bookie, *arguments: Any) -> None:
        with patch.context() as inner:
            inner.setattr(Index, "set_limbo_due", lambda *_: None)
            begin_log(self, *arguments)

    patch.setattr(Bookie, "_begin_log", broken)


def leaves_open_ledgers_without_a_fence_in_limbo(patch: Patch) -> None:
    """R1: the fence may be among what was lost."""
    in_limbo = limbo._in_limbo

    def broken(bookie: Bookie, record: LedgerRecord) -> Record:
        state = bookie.states.hold(record.ledger_id)
        was = state.fence
        in_limbo(bookie, record)
        state.fence = was
        return state_record(state)

    patch.setattr(limbo, "_in_limbo", broken)


def leaves_limbo_before_the_entries_are_there(patch: Patch) -> None:
    """R6: step 3 comes before step 2."""
    repair_ledger = Repair.repair_ledger

    async def broken(self: Repair, ledger_id: int) -> Any:
        await self._leave_limbo(ledger_id)
        return await repair_ledger(self, ledger_id)

    patch.setattr(Repair, "repair_ledger", broken)


def leaves_limbo_whatever_could_not_be_had(patch: Patch) -> None:
    """R6: a repair that failed is done."""
    patch.setattr(Tally, "fail", lambda *_: None)


def forgets_a_damaged_frame_before_its_entries_are_there(patch: Patch) -> None:
    """R6: the index points to it no more, and nothing stands elsewhere yet."""
    fill = Mender.fill

    async def broken(self: Mender, record: Any, parts: Any, tally: Any, **options: Any) -> None:
        parts = list(parts)
        for share, asked in parts:
            async for window in self._inventory.windows(record.ledger_id, share, asked, verify=True):
                for place in window.unreadable:
                    self._bookie.index.remove(record.ledger_id, place)
        await self._bookie.checkpoint()
        await fill(self, record, parts, tally, **options)

    patch.setattr(Mender, "fill", broken)


def believes_frames_that_it_has_not_read(patch: Patch) -> None:
    """R6: a repair takes the index's word for it."""
    windows = Inventory.windows
    patch.setattr(
        Inventory,
        "windows",
        lambda self, ledger_id, share, asked, *, verify: windows(self, ledger_id, share, asked, verify=False),
    )


def looks_for_damage_only_where_something_is_placed(patch: Patch) -> None:
    """A damaged frame behind the end of a closed ledger is pointed to for ever, and its segment stays."""
    fill = Mender.fill

    async def broken(self: Mender, *arguments: Any, **options: Any) -> None:
        options.pop("unreadable", None)
        await fill(self, *arguments, **options)

    patch.setattr(Mender, "fill", broken)


def names_itself_before_it_has_the_entries(patch: Patch) -> None:
    """W3: the metadata says that entries are here which were not fetched."""

    async def broken(self: Any, *_: Any, **__: Any) -> None:
        """Fetches nothing."""

    patch.setattr(gap_filling.Mender, "_fetch", broken)


# --- reading, states ----------------------------------------------------------------------------


def takes_damage_for_absence(patch: Patch) -> None:
    """R6, F11: a record that cannot be read holds nothing."""
    read_frame = frames.read_frame

    def broken(*arguments: Any) -> Columns:
        columns = read_frame(*arguments)
        return columns if isinstance(columns, Columns) else NO_ENTRIES

    patch.setattr(reading, "read_frame", broken)


def holds_every_state(patch: Patch) -> None:
    """What is held in memory grows with the ledgers."""
    patch.setattr(LedgerStates, "shrink", lambda _: None)


def does_not_look_up_again(patch: Patch) -> None:
    """A read that compaction has overtaken calls entries damaged that have only moved."""

    async def broken(self: Any, *asked: Any) -> Any:
        return (await self._read_once(*asked))[1]

    patch.setattr("bookie.storage.page_reader.PageReader.read", broken)


def looks_again_only_while_places_change(patch: Patch) -> None:
    """A frame moves between a second look-up and its reading, on a page that has damage of its own."""

    async def broken(self: Any, *asked: Any) -> Any:
        places, page = await self._read_once(*asked)
        while page.damaged:
            seen = places
            places, page = await self._read_once(*asked)
            if places == seen:
                break
        (request,) = asked
        is_sure = await self._may_deny(request.ledger_id, request.first_entry, page)
        return page if is_sure else page_reader._unsure(request.first_entry, page)

    patch.setattr("bookie.storage.page_reader.PageReader.read", broken)


PLANTS = (
    Plant((deletes_a_segment_before_the_checkpoint,), 20, known=1),
    Plant((writes_the_manifest_after_the_deletion,), 400, known=7),
    Plant((does_not_move_states,), 150, known=15),
    Plant((takes_another_frame_for_a_copy,), 150, known=1),
    Plant((drops_a_segment_that_cannot_be_read,), 150, known=23),
    Plant((does_not_take_the_originals_out_of_the_index,), 20, known=1),
    Plant((keeps_recovery_writes_under_a_wrong_name,), 50, known=1),
    Plant((does_not_subtract_usage,), 20, known=1),
    Plant((forgets_the_manifest,), 500, known=3),
    Plant((believes_a_partial_listing,), 50, known=12),
    Plant((forgets_unlisted_ledgers,), 50, known=0),
    Plant((does_not_ask_once_more,), 50, known=0),
    Plant((drops_misplaced_frames_of_open_ledgers,), 500, known=86),
    Plant((forgets_nothing,), 50, known=5),
    Plant((limbo_is_not_durable,), 30, known=2),
    Plant((forgets_a_loss_that_it_has_checkpointed,), 800, known=117),
    Plant((leaves_open_ledgers_without_a_fence_in_limbo,), 30, known=2),
    Plant((leaves_limbo_before_the_entries_are_there,), 200, known=5),
    Plant((leaves_limbo_whatever_could_not_be_had,), 150, known=11),
    Plant((forgets_a_damaged_frame_before_its_entries_are_there,), 150, known=11),
    Plant((believes_frames_that_it_has_not_read,), 60, known=3),
    Plant((names_itself_before_it_has_the_entries,), 30, known=2),
    Plant((takes_damage_for_absence,), 50, known=3),
    Plant((holds_every_state,), 20, known=1),
)
