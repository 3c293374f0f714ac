"""Scrubbing: reads the entire disk slowly in the background, finds bit rot before a reader does, and repairs it.

It checks one segment after another, without any lock, while the bookie writes and compacts. It checks suspicious places
once more under the upkeep lock, and repairs them:

- an unreadable frame that the index points to: its entries are fetched from other replicas;
- a damaged stretch of the log: every ledger with a fence or state in that segment gets a new state record, because the
lost records are unknown;
- a frame that is missing from the index: it is restored;
- an index row that contains a wrong place: it is removed.

Entries that still cannot be read are then recorded in the ledgers' records (`LocalCheck`).

A pass covers everything before the last checkpoint, and nothing that is not synced.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from metadata.errors import MetadataError
from metadata.rate_limit import RateLimit

from ...errors import BookieError, DiskIsFull
from ...index.frame_locations import Frame, FrameLocation
from ...index.index import Index
from ...log import manifest, segment_files
from ...log.format import NO_LEDGER, place_of
from ...storage.bookie import Bookie
from ...storage.stored_frames import why_unread
from ...wire.messages import EntryRange
from ..collecting.compactor import write_states_anew
from ..inventory.entry_ranges import uncovered
from ..inventory.inventory import is_solid
from ..mending.repair import Repair
from ..polling import poll
from ..reports import LISTED_MAX, ScrubReport, Summary, Tally
from ..threads import in_thread
from .segment_check import DamagedRange, check_segment

# Cross-checks the index and one segment of the log, in both directions, because the index's pages have no checksums.
#
# The audit takes the index's byte counts of a segment before the check, and subtracts the live frames that the check
# finds. If a ledger's count reaches zero, every frame that the index points to is there and intact. If not, frames
# may be damaged, stored elsewhere, or moved in the meantime; they are checked one by one.

COPIES_LOOKED_AT_MAX = 4096
"""Maximum number of index entries that are compared with a frame that the index does not point to."""


class Audit:
    """Cross-check of one segment. Reads the index as of the last checkpoint. Must be used by one thread at a time."""

    def __init__(self, index: Index, segment: int) -> None:
        self._index = index
        self._left = Counter({n: held.frame_bytes for n, held in index.usage.of(segment).items()})

    def hidden(self, frames: Sequence[Frame]) -> list[Frame]:
        """Accounts for these frames of the log; returns those that the index has neither at this place nor elsewhere.

        Returns only frames of ledgers that the index contains. The metadata decides whether the index should have the
        returned frames.
        """
        hidden: list[Frame] = []
        for (ledger_id, place), alive in zip(frames, self._index.still_points_to(frames), strict=True):
            if alive:
                self._left[ledger_id] -= place.size
            elif self._is_nowhere(ledger_id, place):
                hidden.append((ledger_id, place))
        return hidden

    def suspects(self) -> list[int]:
        """Returns the ledgers with frames in the segment that are still unaccounted for after the check."""
        return [ledger_id for ledger_id, left in self._left.items() if left]

    def _is_nowhere(self, ledger_id: int, place: FrameLocation) -> bool:
        if self._index.ledger(ledger_id) is None:
            return False  # the ledger and its frames were forgotten
        first, last = place.first_entry, place.last_entry
        others = self._index.holding(ledger_id, first, last, (), COPIES_LOOKED_AT_MAX)
        if any(other[2:] == place[2:] and other.first_entry == first for other in others):
            return False  # the frame was moved, or fetched again
        whole = (EntryRange(one.first_entry, one.last_entry) for one in others if is_solid(one))
        return any(uncovered(first, last, whole))


log = logging.getLogger(__name__)

PAUSE_SECONDS_MIN = 1.0
"""Minimum pause in seconds between two passes."""

STRETCHES_NAMED_MAX = 1000
"""Maximum number of damaged stretches listed for one segment; any more are only counted."""

STRETCHES_REMEMBERED_MAX = 100_000
"""Maximum number of handled damaged stretches that this process remembers while they are still in the log."""

LEDGERS_PER_STEP = 100
"""Maximum number of ledgers whose index rows are summed in one step."""

NOT_WHOLE = (
    "the index has bit rot: the lost frames of this ledger that were found are restored, but only a rebuild finds all; "
    "stop the bookie and run `bookledger bookie rebuild-index`"
)


class Scrubber:
    """Scrubs one bookie. `upkeep` is the upkeep lock: callers of `scrub_once` must not hold it, and it is not held
    while `report_unread` runs."""

    def __init__(
        self,
        bookie: Bookie,
        repair: Repair,
        upkeep: asyncio.Lock,
        pace: RateLimit,
        report_unread: Callable[[int], Awaitable[None]],
    ) -> None:
        self._bookie = bookie
        self._repair = repair
        self._upkeep = upkeep
        self._pace = pace
        self._report_unread = report_unread
        self._unread: set[int] = set()
        self._one_at_a_time = asyncio.Lock()
        self._known: OrderedDict[DamagedRange, None] = OrderedDict()
        self.last: ScrubReport | None = None
        """Report of the last complete pass."""
        self.ended_at = 0.0
        """Time when the last complete pass ended, by the monotonic clock."""
        self.passes = {"done": 0, "failed": 0}
        """Number of passes that have ended since the start, by outcome."""
        self.under_way: tuple[int, int] | None = None
        """Progress of the running pass: segments read, and segments that existed when it began."""

    async def scrub_for_ever(self, pass_seconds: float, first_seconds: float) -> None:
        """Scrubs every `pass_seconds`, beginning after `first_seconds`, until cancelled or the log has failed."""
        await poll(
            self.scrub_once,
            log,
            "the scrub failed, and will be retried when it is due",
            seconds=pass_seconds,
            first_seconds=min(pass_seconds, first_seconds),
            pause_seconds=PAUSE_SECONDS_MIN,
        )

    async def scrub_once(self) -> ScrubReport:
        """Runs one pass over everything that is synced when the pass begins. Repairs damage, or reports why it could
        not.

        Raises LogFailed and IndexUnusable. Raises MetadataError if unreadable entries could not be recorded in the
        ledgers' records.
        """
        async with self._one_at_a_time:
            try:
                self.last = await self._pass()
            except (BookieError, MetadataError, OSError):
                self.passes["failed"] += 1
                raise
            self.ended_at = time.monotonic()
            self.passes["done"] += 1
            while self._unread:
                await self._report_unread(self._unread.pop())
            return self.last

    async def _pass(self) -> ScrubReport:
        this = _Pass()
        self._repair.restorer.begin_pass()
        await self._bookie.checkpoint()
        await self._check_index(this)
        end = self._bookie.index.checkpoint_position
        try:
            await self._scrub_all(end, this)
        finally:
            self.under_way = None
        async with self._upkeep:
            await self._mend_missing_segments(end, this)
        return this.report()

    async def _scrub_all(self, end: int, this: _Pass) -> None:
        there = [n for n in await in_thread(segment_files.numbers, self._bookie.disk) if n <= end >> 32]
        for done, segment in enumerate(there):
            self.under_way = done, len(there)
            await self._scrub(segment, end, this)

    # --- one segment ------------------------------------------------------------------------

    async def _scrub(self, segment: int, end: int, this: _Pass) -> None:
        try:
            await self._check_segment(segment, end, this)
        except FileNotFoundError:  # compacted in the meantime: its frames are in a later segment
            return
        except OSError as error:
            log.error("cannot scrub %s: %s", segment_files.name_of(segment), error)
            this.found.unread += (why_unread(segment, error),)
            for ledger_id in await in_thread(self._bookie.index.usage.of, segment):
                self._bookie.files.doubt(await in_thread(self._pointed_to, ledger_id, segment))
                self._unread.add(ledger_id)

    async def _check_segment(self, segment: int, end: int, this: _Pass) -> None:
        audit = await in_thread(Audit, self._bookie.index, segment)
        synced = place_of(end)[1] if segment == end >> 32 else None
        steps = check_segment(self._bookie.disk, segment, self._bookie.incarnation, synced)
        found = _Damage(segment)
        while (step := await in_thread(next, steps, None)) is not None:
            await self._pace.keep(step.bytes)
            this.found.bytes_read += step.bytes
            this.found.records += step.records
            found.add(step.damaged)
            await self._put_back(await in_thread(audit.hidden, step.frames), this)
        this.found.segments += 1
        suspects = audit.suspects()
        if found.count or suspects:
            async with self._upkeep:
                if segment_files.name_of(segment) in await in_thread(self._bookie.disk.names):
                    await self._mend(found, suspects, this)

    async def _put_back(self, hidden: Sequence[Frame], this: _Pass) -> None:
        """Restores frames of the log that the index lacks, if the metadata places them here."""
        if not hidden:
            return
        by_ledger: defaultdict[int, list[FrameLocation]] = defaultdict(list)
        for ledger_id, place in hidden:
            by_ledger[ledger_id].append(place)
        async with self._upkeep:
            for ledger_id, places in by_ledger.items():
                try:
                    this.found.frames_restored += await self._repair.restorer.put_back(ledger_id, places)
                except MetadataError as error:
                    why = f"cannot determine whether the index lacks frames of this ledger: {error}"
                    this.repaired.add(Tally(ledger_id, why_not=why))

    # --- mending, with the lock held ----------------------------------------------------------

    async def _mend(self, found: _Damage, suspects: Sequence[int], this: _Pass) -> bool:
        """Repairs a segment's damage; returns whether its states have been rewritten."""
        this.found.damaged += found.count
        if found.count:
            this.found.segments_damaged += (found.segment,)
        new = [stretch for stretch in found.stretches if stretch not in self._known]
        for stretch in new:
            log.error("damaged: %s", stretch)
        for ledger_id in suspects:
            await self._mend_ledger(ledger_id, found.segment, this)
        if not new:
            return True  # the states were rewritten when this damage was first found
        try:
            this.found.states_rewritten += await write_states_anew(self._bookie, found.segment)
            await self._name_segments()
        except DiskIsFull as full:
            why = f"fences that were in {segment_files.name_of(found.segment)} could not be rewritten: {full}"
            this.repaired.add(Tally(NO_LEDGER, why_not=why))
            return False
        self._remember(new)
        return True

    async def _mend_ledger(self, ledger_id: int, segment: int | None, this: _Pass) -> None:
        """Replaces the ledger's unreadable frames, either in this segment or, if it is None, in all segments."""
        done = await self._repair.mend(ledger_id, await in_thread(self._pointed_to, ledger_id, segment))
        if done.why_not:
            self._unread.add(ledger_id)
        this.found.frames_damaged += done.frames_unreadable
        this.repaired.add(done)

    def _pointed_to(self, ledger_id: int, segment: int | None) -> list[FrameLocation]:
        places = self._bookie.index.places(ledger_id)
        return [place for _, place in places if segment in (None, place.position >> 32)]

    async def _name_segments(self, given_up: Collection[int] = ()) -> None:
        """Writes a manifest of the segments to the log. It includes a missing segment that the index still points into,
        because that segment was not dropped."""
        used = await in_thread(self._bookie.index.usage.totals)
        there = await in_thread(segment_files.numbers, self._bookie.disk)
        await self._bookie.store([manifest.to_record((used.keys() | set(there)) - set(given_up))])

    async def _mend_missing_segments(self, end: int, this: _Pass) -> None:
        """Repairs the losses caused by missing segments that the index points into, except the segment that is being
        written."""
        used = await in_thread(self._bookie.index.usage.totals)
        # Read after the index, because segments may be added in between, but none are removed.
        there = await in_thread(segment_files.numbers, self._bookie.disk)
        for segment in sorted(used.keys() - set(there)):
            if segment < end >> 32 or segment > there[-1]:
                usage = await in_thread(self._bookie.index.usage.of, segment)
                missing = _Damage(segment, 1, [DamagedRange(segment, 0, 0, "the segment is missing")])
                if await self._mend(missing, list(usage), this):
                    await self._give_up(segment)

    async def _give_up(self, segment: int) -> None:
        """Drops a missing segment from the manifest when the index no longer points into it."""
        usage = await in_thread(self._bookie.index.usage.of, segment)
        if not any(held.frame_bytes for held in usage.values()):
            await self._name_segments(given_up=[segment])
            await self._bookie.remove_segments([segment])

    async def _check_index(self, this: _Pass) -> None:
        """Removes wrong rows of the index; the segment check then finds frames in the log that the index lacks."""
        ledger_ids = await in_thread(self._bookie.index.ledger_ids)
        for start in range(0, len(ledger_ids), LEDGERS_PER_STEP):
            for ledger_id in await in_thread(self._not_whole, ledger_ids[start : start + LEDGERS_PER_STEP]):
                async with self._upkeep:
                    await self._mend_ledger(ledger_id, None, this)
                this.repaired.add(Tally(ledger_id, why_not=NOT_WHOLE))

    def _not_whole(self, ledger_ids: Sequence[int]) -> list[int]:
        return [ledger_id for ledger_id in ledger_ids if not self._bookie.index.is_whole(ledger_id)]

    def _remember(self, stretches: Sequence[DamagedRange]) -> None:
        for stretch in stretches:
            self._known[stretch] = None
            if len(self._known) > STRETCHES_REMEMBERED_MAX:
                self._known.popitem(last=False)


@dataclass(slots=True)
class _Damage:
    """Damaged stretches of one segment: all are counted, but only the first ones are listed."""

    segment: int
    count: int = 0
    stretches: list[DamagedRange] = field(default_factory=list)

    def add(self, stretches: Sequence[DamagedRange]) -> None:
        self.count += len(stretches)
        self.stretches += stretches[: STRETCHES_NAMED_MAX - len(self.stretches)]


@dataclass(slots=True)
class _Pass:
    """Findings and repairs of one pass, updated while it runs."""

    found: ScrubReport = field(default_factory=ScrubReport)
    repaired: Summary = field(default_factory=Summary)

    def report(self) -> ScrubReport:
        repaired = self.repaired.report()
        return replace(
            self.found,
            entries_repaired=repaired.entries,
            ledgers_unrepaired=repaired.ledgers_unrepaired,
            segments_damaged=self.found.segments_damaged[:LISTED_MAX],
            unread=self.found.unread[:LISTED_MAX],
            unrepaired=repaired.unrepaired,
        )
