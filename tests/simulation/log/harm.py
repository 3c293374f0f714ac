"""What goes wrong with a bookie's disk, by the plan and by the bookie's own chance."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from bookie.errors import DamagedLog, DataDirectoryError
from bookie.log import segments
from bookie.log.format import place_of
from bookie.wire import ReadRequest
from metadata.records.ledger_record import BookieRef
from tests.bookie.simulated_disk import disk_with
from tests.simulation.cores.cluster import LEDGER
from tests.simulation.cores.plans.plan import (
    DiskFault,
    FailSync,
    Full,
    ReadErrors,
    ReadOnly,
    Rot,
    SlowDisk,
    Wipe,
)
from tests.simulation.cores.probes import Probe
from tests.simulation.engine.world import Violation

from .probes import WetProbe
from .rot import HOW, is_witnessed, spoil
from .storage import Storage

if TYPE_CHECKING:
    from .bookie import WetBookie

ROTS = 0.02
"""A share of the commits after which some record goes bad."""

READ_ERRORS = (0.0, 0.0, 0.0, 0.2)
"""Shares of the pages of which some record cannot be read; drawn for each bookie."""

FULL_BYTES_MAX = 300
"""A full disk takes up to so many bytes more."""

SYNCS_PER_PATIENCE = 30.0
"""A healthy disk syncs so often while a client waits: groups are small here, and one frame waits for several."""

DAMAGED_AS = {"damaged": "one bit", "wrong bytes": "a sector", "misdirected": "a misdirected write"}


class Harm:
    """The troubles of one bookie."""

    def __init__(self, bookie: WetBookie, patience_seconds: float) -> None:
        self._bookie = bookie
        self._healthy_sync_seconds = min(bookie.sync_seconds, patience_seconds / SYNCS_PER_PATIENCE)
        self._errors_until = self._errors = 0.0
        self._read_errors = bookie.chance.choice(READ_ERRORS)
        self._rots: list[Rot] = []

    def happen(self, fault: DiskFault) -> None:
        bookie = self._bookie
        match fault:
            case FailSync():
                bookie.disk.fail_sync_after(0, OSError(errno.EIO, "the disk is broken"))
            case Full(_, _, seconds):
                bookie.disk.capacity_bytes = bookie.disk.used_bytes + bookie.chance.below(FULL_BYTES_MAX)
                bookie.world.after(seconds, self._make_room)
            case ReadErrors(_, _, seconds, probability):
                self._errors_until, self._errors = bookie.world.now + seconds, probability
            case ReadOnly(_, _, seconds):
                bookie.read_only(seconds)
            case SlowDisk(_, _, factor):
                bookie.sync_seconds *= factor
            case Rot():
                self._rots.append(fault)
                self.rot()
            case Wipe():
                self._wipe()

    def heal(self) -> None:
        """The disk works from here on; what is lost or rotten stays so."""
        self._make_room()
        self._bookie.disk.heal()
        self._bookie.sync_seconds = self._healthy_sync_seconds
        self._errors_until = 0.0
        self._rots.clear()

    def _make_room(self) -> None:
        self._bookie.disk.capacity_bytes = None

    # --- whole disks ----------------------------------------------------------------------------

    def _wipe(self) -> None:
        """The disk is empty, which no bookie starts on; formatted anew it is another incarnation (R6, W7)."""
        bookie = self._bookie
        bookie.crash()
        bookie.world.reached(Probe.WIPED)
        bookie.disk.wipe()
        try:
            Storage(bookie.disk, bookie.index, bookie.log_incarnation, bookie)
        except DataDirectoryError as refusal:
            bookie.world.note("%s: %s", bookie.name, refusal)
        else:
            raise Violation("R6", f"{bookie.name} starts without its log")
        bookie.rack.reached(WetProbe.FORMATTED_ANEW)
        bookie.ref = BookieRef(bookie.name, f"{bookie.ref.incarnation}'")
        bookie.refuses = False
        self._rots.clear()
        bookie.format()

    def refuse_foreign_disk(self) -> None:
        """The segments' headers say whose they are (W7)."""
        bookie = self._bookie
        other = bookie.chance.choice([b for b in bookie.rack.bookies.values() if b is not bookie])
        disk = disk_with(other.disk.durable_contents().items(), Random(0))
        for number in segments.numbers(disk)[:1]:
            try:
                segments.check_header(disk.open(segments.name_of(number)), number, bookie.log_incarnation)
            except DamagedLog as refusal:
                bookie.rack.reached(WetProbe.FOREIGN_DISK)
                bookie.world.note("%s: %s", bookie.name, refusal)
            else:
                raise Violation("W7", f"{bookie.name} takes the disk of another bookie")

    # --- records --------------------------------------------------------------------------------

    def rot(self) -> None:
        """What is to go bad goes bad as soon as the product can tell it from a torn tail."""
        bookie = self._bookie
        if not bookie.up or not bookie.rack.draws_faults or bookie.is_healed:
            return
        self._rots = [rot for rot in self._rots if not self._rot_entry(rot)]
        if bookie.promises.placed and bookie.chance.happens(ROTS):
            self._rot_record(bookie.chance.choice(sorted(bookie.promises.placed)), bookie.chance.choice(HOW))

    def _rot_entry(self, rot: Rot) -> bool:
        """Every copy of the entry in this log goes bad, or is bad already."""
        promises = self._bookie.promises
        wanted = [p for p in promises.placed if (LEDGER, rot.entry_id) in promises.copies_at(p)]
        for position in wanted:
            self._rot_record(position, DAMAGED_AS[rot.how])
        return bool(wanted) and promises.damaged.issuperset(wanted)

    def _rot_record(self, position: int, how: str) -> None:
        bookie, promises, atlas = self._bookie, self._bookie.promises, self._bookie.rack.atlas
        if position in promises.damaged or not self._may_be_hit(position):
            return
        if atlas.lose_copies(bookie.name, promises.copies_at(position)):
            bookie.world.note("%s: the record at %#x suffers %s", bookie.name, position, how)
            spoil(bookie.disk, promises, position, how, bookie.chance)

    def _may_be_hit(self, position: int) -> bool:
        """Behind the checkpoint the record alone is lost; before it, the bookie with its next start."""
        bookie = self._bookie
        if position < bookie.index.checkpoint_position:
            return True
        return is_witnessed(bookie.disk, bookie.promises, position) and bookie.rack.atlas.lose_bookie(
            bookie.name
        )

    @contextmanager
    def reads(self, request: ReadRequest) -> Iterator[bool]:
        """While a page is read, reads of a record of it may fail or give another's bytes; says whether they do."""
        bookie = self._bookie
        by_plan = self._errors if bookie.world.now < self._errors_until else 0.0
        share = max(by_plan, self._read_errors if bookie.draws_faults else 0.0)
        is_bad = share > 0 and bookie.chance.happens(share)
        if is_bad:
            self._spoil_reads(request)
        try:
            yield is_bad
        finally:
            bookie.disk.mend_reads()

    def _spoil_reads(self, request: ReadRequest) -> None:
        bookie, promises = self._bookie, self._bookie.promises
        wanted = [p for p in sorted(promises.placed) if promises.holds_some_of(p, request)]
        if not wanted:
            return
        position = bookie.chance.choice(wanted)
        segment, offset = place_of(position)
        name, end = segments.name_of(segment), offset + promises.placed[position][1]
        others = [p for p in wanted if place_of(p)[0] == segment and p != position]
        if others and bookie.chance.happens(0.5):
            shift = bookie.chance.choice(others) - position
            bookie.disk.misdirect_reads(name, offset, end, shift)
        else:
            bookie.disk.fail_reads(name, offset, end)
