"""One run's world: the machine, the metadata, the other replicas, and what has been seen so far."""

from __future__ import annotations

from collections import Counter, deque

from tests.bookie.durable_records import DurableRecords
from tests.simulation.engine.chance import Stream, key_of

from .ledgers import Ledgers
from .machine import Machine
from .metadata import Metadata
from .peers import Replicas
from .plan import Plan, Step
from .probes import UpkeepProbe

CRASHES = {
    "moving": UpkeepProbe.CRASH_MOVING,
    "states": UpkeepProbe.CRASH_STATES,
    "deleting": UpkeepProbe.CRASH_DELETING,
    "forgetting": UpkeepProbe.CRASH_FORGETTING,
    "dropping": UpkeepProbe.CRASH_DROPPING,
    "limbo": UpkeepProbe.CRASH_LIMBO,
    "repair": UpkeepProbe.CRASH_REPAIR,
    "mending": UpkeepProbe.CRASH_SCRUB,
    "adopting": UpkeepProbe.CRASH_ADOPTING,
    "start": UpkeepProbe.CRASH_START,
    "salvage": UpkeepProbe.CRASH_SALVAGE,
    "rebuild": UpkeepProbe.CRASH_REBUILD,
    "checkpoint": UpkeepProbe.CRASH_CHECKPOINT,
}
"""What it is called when the power goes while this is under way."""


class Site:
    """`under_way` counts what the bookie is doing, by name; `owes_limbo`: it knows of a loss that it has not dealt
    with; `was_made_of_log`: its index was, and has again what it had forgotten; `is_damaged`: something on its disk was
    made unreadable."""

    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.steps: deque[Step] = deque(plan.steps)
        self.machine = Machine(plan.seed)
        self.durable = DurableRecords(self.machine.disk)
        self.metadata = Metadata()
        self.ledgers = Ledgers(plan.seed, self.metadata)
        self.peers = Replicas(self.ledgers, plan.sizes.payload)
        self.probes: set[UpkeepProbe] = set()
        self.under_way: Counter[str] = Counter()
        self.lives = 0
        self.owes_limbo = False
        self.was_made_of_log = False
        self.is_damaged = False
        self.is_done = False
        self._tracing = tracing
        self.trace: list[str] = []

    def stream(self, *names: str) -> Stream:
        return Stream(key_of(self.plan.seed, *names))

    def note(self, what: str, *facts: object) -> None:
        if self._tracing:
            self.trace.append(
                f"{self.lives}.{self.machine.disk.operations}: {what % facts if facts else what}"
            )

    def reached(self, probe: UpkeepProbe) -> None:
        self.probes.add(probe)

    def entries_on_disk(self, ledger_id: int) -> set[int]:
        """Of the ledger, whatever the index says of them."""
        theirs = (record.columns for _, record in self.durable if record.ledger_id == ledger_id)
        return {entry_id for columns in theirs if columns is not None for entry_id in columns.ids}

    def calm(self) -> None:
        """Nothing goes wrong from here on."""
        self.note("calm")
        self.machine.calm()
        self.peers.failures = 0
        self.ledgers.list_again()

    def died(self) -> None:
        """The power has gone, or the process was killed, in the middle of what is under way."""
        self.note("died of %s while %s", self.machine.how, sorted(+self.under_way))
        for name in +self.under_way:
            if name in CRASHES:
                self.reached(CRASHES[name])
        if self.under_way["emptying"] and self.under_way["checkpoint"]:
            self.reached(UpkeepProbe.CRASH_MOVED)
        if self.under_way["dropping segments"] and not self.under_way["deleting"]:
            self.reached(UpkeepProbe.CRASH_MANIFEST)
        if self.machine.how == "kill":
            self.reached(UpkeepProbe.KILLED)
        if any(one.is_deleted and self.machine.index.ledger(one.ledger_id) for one in self.ledgers):
            self.reached(UpkeepProbe.CRASH_BEFORE_FORGET)
        self.under_way.clear()
