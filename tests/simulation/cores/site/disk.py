"""A simulated bookie's disk: what is on it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

from bookie.log.format import BookieLogRecord
from tests.simulation.cores.plans.plan import DiskFault, FailSync, Full, ReadErrors, ReadOnly, SlowDisk
from tests.simulation.cores.probes import Probe
from tests.simulation.engine.world import World

Copy = tuple[bytes, bytes]

HEALTHY_SYNC_SECONDS = 0.5
"""What a sync takes at most, on average, once everything works."""


class SimulatedDisk:
    """Durable records in order; faults that last for a while, and copies that stay rotten."""

    def __init__(self, world: World, name: str, sync_seconds: float) -> None:
        self._world = world
        self._syncs = world.stream("sync", name)
        self._reads = world.stream("disk read", name)
        self._sync_seconds = sync_seconds
        self._slowness = 1.0
        self.records: list[BookieLogRecord] = []
        self.rotten: dict[int, str] = {}
        self.is_foreign = False
        self._fails_sync: FailSync | None = None
        self._full_until = self._read_only_until = 0.0
        self._errors_until = 0.0
        self._errors = 0.0

    def damage(self, fault: DiskFault) -> None:
        now = self._world.now
        match fault:
            case FailSync():
                self._fails_sync = fault
            case Full():
                self._full_until = now + fault.seconds
            case ReadOnly():
                self._read_only_until = now + fault.seconds
            case ReadErrors():
                self._errors_until, self._errors = now + fault.seconds, fault.probability
            case SlowDisk():
                self._slowness = fault.factor
            case _:
                raise AssertionError(f"{fault} is not the disk's alone")

    def format(self) -> None:
        """An empty disk."""
        self.records = []
        self.rotten = {}

    def heal(self) -> None:
        """Works from here on, and well; what is lost or rotten stays so."""
        self._sync_seconds = min(self._sync_seconds, HEALTHY_SYNC_SECONDS)
        self._fails_sync = None
        self._full_until = self._read_only_until = self._errors_until = 0.0
        self._slowness = 1.0
        self.is_foreign = False

    # --- writing --------------------------------------------------------------------------------

    def sync_seconds(self) -> float:
        """How long the next sync takes."""
        return self._syncs.exponential(self._sync_seconds * self._slowness)

    def sync_failure(self) -> FailSync | None:
        """The fault that the sync of this moment dies of, once."""
        failure, self._fails_sync = self._fails_sync, None
        return failure

    @property
    def is_full(self) -> bool:
        return self._world.now < self._full_until

    @property
    def is_nearly_full(self) -> bool:
        return self._world.now < self._read_only_until

    # --- reading --------------------------------------------------------------------------------

    def fails_read(self) -> bool:
        """Whether this page cannot be read at all."""
        return self._world.now < self._errors_until and self._reads.happens(self._errors / 2)

    def read_copy(self, entry_id: int, entries: Mapping[int, Copy]) -> Copy | None:
        """(payload, digest) as the disk gives it; None where a record's checksum tells that it is damaged."""
        how = self.rotten.get(entry_id)
        if how is None and self._world.now < self._errors_until and self._reads.happens(self._errors / 2):
            how = "damaged"
        if how is None:
            return entries[entry_id]
        if how == "damaged":
            self._world.reached(Probe.READ_DAMAGED)
            return None
        self._world.reached(Probe.READ_WRONG_BYTES)
        payload, digest = entries[entry_id]
        if how == "misdirected" and len(entries) > 1:
            return next(copy for other, copy in entries.items() if other != entry_id)
        return payload[:-1] + bytes([payload[-1] ^ 1]), digest
