"""The lives of a bookie's process over its disk: starts, commits, checkpoints, and every way to end.

Each life is a `Storage` over the same disk and the same index. The power may go before any operation of the disk, also
in the middle of a group or of a start; a start that fails without damage is tried again; damage keeps it down.
"""

from __future__ import annotations

import uuid
from random import Random

from bookie.errors import DamagedLog, DataDirectoryError
from bookie.index.ledger_state import Fence
from bookie.log import segments
from bookie.log.format import SEGMENT_HEADER, Record, record_bytes
from bookie.wire import NO_ENTRY, ReadReply, ReadRequest, Status
from metadata.records.ledger_record import BookieRef
from tests.bookie.simulated_disk import Loss, PowerOff, SimulatedDisk
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.cluster import LEDGER
from tests.simulation.cores.plans.plan import Figures
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.node import Node
from tests.simulation.engine.chance import key_of
from tests.simulation.engine.world import Violation, World

from .durable import DurableRecords
from .probes import WetProbe
from .promises import Promises
from .rack import Rack
from .storage import Storage

AGAIN_SECONDS = 5.0
"""A start that failed is tried again after so long."""

INTERRUPTED_WRITES = 0.7
"""A share of the crashes meets the log while it writes and syncs."""

OPERATIONS_PER_GROUP = 5
"""More changing operations than most groups and most starts need."""

TROUBLE_SECONDS_MAX = 120.0
"""From here on a bookie has no troubles besides those of the plan: until calm, clients notice that lanes are dead."""

DEFERRED_SECONDS = 10.0
"""How long records with deferred sync wait for one; the product's second, in a world where messages take as long."""

INTERRUPTED_STARTS = 0.15
POWER_CUTS = (0.0, 0.02, 0.1, 0.3)
"""Shares of the commits after which the power goes before one of the next operations; drawn for each bookie."""

CHECKPOINTS = 0.3
"""A share of the commits is followed by a checkpoint, which stands a while later."""

CHECKPOINT_SECONDS_MAX = 10.0
CRASHES_AT_THE_END = 0.4
"""A share of the bookies loses its power once more when all is over."""

ALL_BYTES = 1 << 30


class Life(Node):
    """A bookie without its network. Implements `storage.Watch`."""

    woken_from_pause = Probe.BOOKIE_PAUSED

    def __init__(self, world: World, ref: BookieRef, checker: Checker, figures: Figures, rack: Rack) -> None:
        super().__init__(world, ref.bookie_id)
        self.ref = ref
        self.rack = rack
        self.checker = checker
        self.generation = 0
        self.refuses = False
        """Whether damage keeps it down for good."""
        self.is_foreign = False
        self.is_healed = False
        self.read_only_until = 0.0
        self.sync_seconds = figures.sync_seconds
        self.chance = world.stream("wet", self.name)
        self._power_cuts = self.chance.choice(POWER_CUTS)
        self._storage: Storage | None = None
        self._life = self._formats = 0
        self._commits = False
        self.format()
        self._begin()
        self._operations_before = self.disk.operations
        if self.name in rack.power_off:
            self.disk.power_off_before(rack.power_off[self.name])

    @property
    def operations(self) -> int:
        """Changing operations of the disk since the first start."""
        return self.disk.operations - self._operations_before

    # --- beginning ------------------------------------------------------------------------------

    def format(self) -> None:
        """A new disk with the first segment, and an empty index."""
        seed = key_of(self.world.seed, "wet disk", self.name, str(self._formats))
        self._formats += 1
        self.disk = SimulatedDisk(Random(seed))
        self.index = self.rack.take_index()
        self.promises = Promises(self.name, self.disk)
        self._platter = DurableRecords(self.disk)
        segments.resume_or_begin(self.disk, 0, self.log_incarnation).close()

    @property
    def log_incarnation(self) -> str:
        """The segments' headers hold 16 bytes."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.ref.incarnation))

    @property
    def draws_faults(self) -> bool:
        """Whether it may have troubles of its own now."""
        return self.rack.draws_faults and not self.is_healed and self.world.now < TROUBLE_SECONDS_MAX

    @property
    def storage(self) -> Storage:
        assert self._storage is not None
        return self._storage

    def restart(self) -> None:
        if self.up or self.refuses or self.is_foreign:
            return
        if self.draws_faults and self.chance.happens(INTERRUPTED_STARTS):
            self.disk.power_off_before(self.chance.below(OPERATIONS_PER_GROUP))
        self._begin()

    def _begin(self) -> None:
        """One start; where it fails without damage it is tried again."""
        loss = self.chance.choice(tuple(Loss))
        is_inside = self.index.checkpoint_position & 0xFFFFFFFF > SEGMENT_HEADER.size
        try:
            storage = Storage(self.disk, self.index, self.log_incarnation, self)
        except PowerOff:
            self.rack.reached(WetProbe.START_INTERRUPTED)
            self._end(loss)
            self.world.after(AGAIN_SECONDS, self.restart)
        except (DamagedLog, DataDirectoryError) as refusal:
            self._refuse(refusal)
        except OSError as error:
            self.world.note("%s cannot start: %s", self.name, error)
            self.disk.heal()
            self.world.after(AGAIN_SECONDS, self.restart)
        else:
            if is_inside:
                self.rack.reached(WetProbe.STARTED_IN_THE_MIDDLE)
            self.disk.heal()
            self._storage, self.up = storage, True
            self.tell_core()
            self.world.note("%s starts as %s at %#x", self.name, self.ref.incarnation, storage.log.position)
            self._check_start(storage)

    def tell_core(self) -> None:
        """Whether new entries are taken at the moment; the product's `space` decides it."""
        if self._storage is not None:
            is_read_only = self.world.now < self.read_only_until
            self._storage.core.read_only = "its disk is nearly full" if is_read_only else ""

    def _refuse(self, refusal: Exception) -> None:
        """Damage keeps a bookie down; without damage nothing may (B2)."""
        self.world.note("%s refuses to start: %s", self.name, refusal)
        if not self.promises.damaged:
            raise Violation("B2", f"{self.name} refuses an undamaged log: {refusal}")
        self.rack.reached(WetProbe.REFUSED_TO_START)
        self.refuses = True

    # --- ending ---------------------------------------------------------------------------------

    def crash(self, keeps: float = 0.0) -> None:
        """The process is killed or the power goes, often in the middle of a write; what survives is drawn."""
        if not self.up:
            return
        self.before_power_goes()
        if self.storage.waits_for_disk and self.chance.happens(INTERRUPTED_WRITES):
            self.disk.power_off_before(self.chance.below(OPERATIONS_PER_GROUP))
            try:
                self.storage.commit_group()
            except OSError as error:
                self.world.note("%s was in the middle of a write: %s", self.name, error)
        self._end(self.chance.choice((None, *Loss)))

    def _end(self, loss: Loss | None) -> None:
        """What memory held is gone; with `loss` also what the disk had not synced."""
        left = self._storage.waits_for_disk if self._storage is not None else 0
        how = loss.name.lower() if loss is not None else "killed"
        self.world.note("%s crashes (%s), %s records not durable", self.name, how, left)
        if self._storage is not None:
            self._storage = None
            self.generation += 1
        self.up = self._commits = False
        self.promises.died()
        self._life += 1
        if loss is None:
            self.rack.reached(WetProbe.KILLED)
            self.disk.heal()
        else:
            self.disk.crash(loss)

    def _lose_power(self) -> None:
        """The operation of the disk that was just asked for met the end of the power."""
        self.rack.reached(WetProbe.WRITE_INTERRUPTED)
        self._end(self.chance.choice(tuple(Loss)))
        self.world.after(AGAIN_SECONDS, self.restart)

    def _die_of(self, error: OSError) -> None:
        """A failed write or sync is never tried again: the process ends (B1). The page cache may live on."""
        self.world.reached(Probe.SYNC_FAILED)
        self.world.note("%s dies of %s", self.name, error)
        self._end(self.chance.choice((None, None, *Loss)))
        self.world.after(AGAIN_SECONDS, self.restart)

    # --- the log and the checkpoint ---------------------------------------------------------------

    def commit_later(self) -> None:
        """The log's thread takes what waits, a while from now; what may wait for a sync, waits longer."""
        if self._commits or not self.storage.waits_for_disk:
            return
        self._commits, life = True, self._life
        delay = self.chance.exponential(self.sync_seconds)
        if not self.storage.has_group:
            delay += DEFERRED_SECONDS
        self.world.after(delay, lambda: self.deliver(lambda: self._commit(life)))

    def commit_now(self) -> None:
        """A disk that was slow is so no more."""
        self._commits = False
        if self.up:
            self.commit_later()

    def _commit(self, life: int) -> None:
        if life != self._life:
            return
        self._commits = False
        segment = self.storage.log.position >> 32
        try:
            self.storage.commit_group()
        except PowerOff:
            self._lose_power()
        except OSError as error:
            self._die_of(error)
        else:
            if self.storage.log.position >> 32 > segment:
                self.rack.reached(WetProbe.ROLLED)
            self.commit_later()
            self.committed()

    def committed(self) -> None:
        """A group is done: now and then a checkpoint begins, and stands a while later."""
        life = self._life
        if self.chance.happens(CHECKPOINTS):
            self.storage.begin_checkpoint()
            delay = self.chance.uniform(0, CHECKPOINT_SECONDS_MAX)
            self.world.after(delay, lambda: self._commit_checkpoint(life))
        if self.draws_faults and self.chance.happens(self._power_cuts):
            self.before_power_goes()
            self.disk.power_off_before(self.chance.below(OPERATIONS_PER_GROUP))

    def before_power_goes(self) -> None:
        """What comes in now is likely to be lost."""

    def _commit_checkpoint(self, life: int) -> None:
        if life == self._life:
            self.storage.commit_checkpoint()

    # --- what is watched --------------------------------------------------------------------------

    def submitted(self, record: Record) -> None:
        self.promises.submitted(record)

    def replayed(self, record: Record, position: int) -> None:
        is_new = position not in self.promises.placed
        self.promises.replayed(record, position, record_bytes(record))
        if is_new:
            self.rack.reached(WetProbe.SURVIVED)
            self._tell_stored(record)

    def durable(self, record: Record, position: int, size: int) -> None:
        self.promises.durable(record, position, size)
        self._tell_stored(record)

    def _tell_stored(self, record: Record) -> None:
        if record.columns is not None and record.ledger_id == LEDGER:
            self.checker.stored(self.ref, record.columns, recovery=record.recovery)

    # --- checks -----------------------------------------------------------------------------------

    def _check_start(self, storage: Storage) -> None:
        """Everything that it owes is there (B2, R1)."""
        promises = self.promises
        for ledger_id in sorted(promises.fenced):
            if storage.state_of(ledger_id).fence is not Fence.DURABLE:
                raise Violation("R1", f"{self.name} forgot that ledger {ledger_id} is fenced")
        for ledger_id in sorted(promises.lacs):
            told = storage.state_of(ledger_id).last_add_confirmed
            promises.lac_answered(ledger_id, told.last_entry if told else NO_ENTRY)
        for ledger_id in sorted(promises.entries):
            self._check_entries(storage, ledger_id)
        fenced = storage.state_of(LEDGER).fence is Fence.DURABLE
        if fenced:
            self.world.reached(Probe.FENCE_KEPT)
        self.checker.restarted(self.ref, fenced=fenced, held=promises.entries.get(LEDGER, {}))

    def _check_entries(self, storage: Storage, ledger_id: int) -> None:
        first, last = 0, max(self.promises.entries[ledger_id])
        while first <= last:
            request = ReadRequest(self.ref.incarnation, ledger_id, first, last, ALL_BYTES)
            reply = page_of(storage, request)
            if reply.status is not Status.OK:
                raise Violation("B2", f"{self.name} has forgotten ledger {ledger_id}: {reply.status}")
            self.promises.page_answered(request, reply, may_fail=bool(self.promises.damaged))
            first = reply.covered_through + 1

    def check_idle(self) -> None:
        """Nothing waits; and after one more loss of power everything is there."""
        if self._storage is None:
            return
        self.checker.bounded(f"records left at {self.name}", self._storage.waits_for_disk, 0)
        if self.chance.happens(CRASHES_AT_THE_END):
            self._end(self.chance.choice(tuple(Loss)))
            self._begin()

    def has_durably(self, entry_id: int, payload: bytes) -> bool:
        """Whether the platter holds this entry of the ledger, or held it before it was damaged on purpose."""
        excused = self.promises.is_excused(LEDGER, entry_id)
        return excused or self._platter.has_entry(LEDGER, entry_id, payload)


def page_of(storage: Storage, request: ReadRequest) -> ReadReply:
    """One page as `bookie.Bookie.read` gives it behind the fence."""
    page = storage.page(request)
    if page.covered_through < request.first_entry:
        return ReadReply(Status.IO_ERROR, detail="too many copies of one entry in the log")
    state = storage.state_of(request.ledger_id)
    status = Status.OK if state.known else Status.NO_SUCH_LEDGER
    return ReadReply(status, page.columns, page.covered_through, page.damaged, state.last_add_confirmed)
