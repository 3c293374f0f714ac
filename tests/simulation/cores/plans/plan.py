"""What happens in one run, all of it, as a value: printed, changed, made smaller, kept in a test.

`repr` of a plan is Python that makes the same plan again; what stands at its default is left out. Times are virtual
seconds from the start. Bookies are called b0, b1, …; clients writer, r0 … (recoverers), t0 … (tail readers), p0 …
(plain readers), deleter; the store metadata.
"""

from __future__ import annotations

from tests.simulation.engine.printed import Listing, Value

METADATA = "metadata"
WRITER = "writer"
DELETER = "deleter"

MESSAGE_KINDS = ("add", "ack", "lac", "lac reply", "read", "read reply", "cas", "cas reply", "watch")


# --- what clients do ----------------------------------------------------------------------------


class Operation(Value):
    """At this time."""

    at: float


class Append(Operation):
    """The writer appends entries of these many bytes."""

    sizes: tuple[int, ...] = (1,)


class AppendAs(Operation):
    """The writer appends one entry under an id of the caller's choice (makes it an advanced writer)."""

    entry_id: int
    size: int = 1


class TellLac(Operation):
    """The idle writer tells the bookies what is confirmed."""


class Force(Operation):
    """The writer, whose syncs are deferred, wants all it has appended on disk."""


class Close(Operation):
    """The writer closes its ledger."""


class Recover(Operation):
    """A client opens the ledger with recovery, and tries again so often when that fails."""

    client: str = "r0"
    tries: int = 3


class Tail(Operation):
    """A reader follows the ledger from `first_entry` to its close, without fencing."""

    client: str = "t0"
    first_entry: int = 0


class Read(Operation):
    """A reader opens the ledger without recovery and reads what is confirmed, beginning at this replica."""

    client: str = "p0"
    rotation: int = 0


class Delete(Operation):
    """Somebody deletes the ledger."""


# --- what goes wrong ----------------------------------------------------------------------------


class Rule(Value):
    """From `at` for `seconds`, messages of one kind between nodes ("" is any) are lost, or late by a minute."""

    kind: str
    source: str = ""
    target: str = ""
    late: bool = False
    probability: float = 1.0
    at: float = 0.0
    seconds: float = 1000.0


class Fault(Value):
    """It begins at this time."""

    at: float


class DiskFault(Fault):
    """It happens to a bookie's disk: what `SimulatedBookie.damage` is given."""

    bookie: str


class Cut(Fault):
    """Nothing passes from these nodes to those; with `both_ways` nor back. With `holds` it passes afterwards."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    seconds: float = 1000.0
    both_ways: bool = False
    holds: bool = False


class Pause(Fault):
    """A client or bookie stands still; what reaches it waits."""

    node: str
    seconds: float = 30.0


class Crash(Fault):
    """A client or bookie dies, and comes back after `seconds` (a writer to recover its ledger).

    Of what a bookie has not synced, the first part survives, a share `keeps` of it.
    """

    node: str
    seconds: float = 1000.0
    keeps: float = 0.0


class FailSync(DiskFault):
    """The bookie's next sync fails: it dies without acknowledging, and of the page cache only `keeps` is on disk."""

    seconds: float = 20.0
    keeps: float = 0.0


class ReadErrors(DiskFault):
    """The bookie's disk fails a share of the reads for a while: an error, or a copy that is called damaged."""

    seconds: float = 1000.0
    probability: float = 0.5


class Full(DiskFault):
    """The bookie's disk takes nothing for a while."""

    seconds: float = 50.0


class ReadOnly(DiskFault):
    """The bookie's disk is nearly full for a while: it takes fences and recovery's writes only (B4)."""

    seconds: float = 50.0


class SlowDisk(DiskFault):
    """Each sync of the bookie takes so many times as long from here on."""

    factor: float = 10.0


class Rot(DiskFault):
    """The copy of an entry that the bookie holds then goes bad, for good.

    "damaged": the record's checksum finds it. "wrong bytes": the bookie serves them. "misdirected": it serves the
    bytes of another entry.
    """

    entry_id: int
    how: str = "damaged"


class Wipe(DiskFault):
    """The bookie loses its disk and is formatted anew under its old name: another incarnation, empty."""

    seconds: float = 20.0


class Swap(Fault):
    """Two bookies are restarted with each other's disks, refuse them, and stay down until these are swapped back."""

    bookie: str
    other: str
    seconds: float = 50.0


class StoreAway(Fault):
    """The metadata store serves nothing for a while; with `applies` it does what is asked and says nothing."""

    seconds: float = 30.0
    applies: bool = False


class Touch(Fault):
    """Another client changes the ledger's record harmlessly: the next compare-and-swap of all others fails."""


class LeaseLost(Fault):
    """A live bookie is not registered for a while."""

    bookie: str
    seconds: float = 50.0


class WatchGap(Fault):
    """A reader hears of no change of the record for a while, then only of the last."""

    client: str = "t0"
    seconds: float = 60.0


class SetBack(Fault):
    """The store goes back to the record of so many changes ago, and is held back. An operator has it brought up to what
    the bookies have noted, and accepts it, once so much time has passed and all of them are up."""

    changes: int = 1
    seconds: float = 30.0


# --- the whole -----------------------------------------------------------------------------------


class Figures(Value):
    """What is true of the whole run. Shares are of all messages; a slow one is late by up to a minute."""

    loss: float = 0.0
    slow: float = 0.0
    duplicate: float = 0.0
    sync_seconds: float = 2.0
    patience_seconds: float = 100.0
    dead_replacements: float = 0.0


class Plan(Listing):
    """One run: E, Qw and Qa, how many bookies there are, what clients do, and what goes wrong meanwhile.

    `absent`: positions whose bookies were absent when the ledger was created (W9). Faults say whether they are down.
    """

    seed: int
    shape: tuple[int, int, int]
    bookies: int
    deferred_sync: bool = False
    delay_ensemble_change: bool = False
    absent: tuple[int, ...] = ()
    figures: Figures = Figures()
    rules: tuple[Rule, ...] = ()
    operations: tuple[Operation, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def bookie_names(self) -> tuple[str, ...]:
        return tuple(f"b{n}" for n in range(self.bookies))

    def copies_lost_max(self) -> int:
        """The most copies of one entry that are lost for good: wiped disks, and the entry's rotten copies."""
        wiped = sum(isinstance(fault, Wipe) for fault in self.faults)
        rotten = {(fault.entry_id, fault.bookie) for fault in self.faults if isinstance(fault, Rot)}
        entries = [entry_id for entry_id, _ in rotten]
        return wiped + max((entries.count(entry_id) for entry_id in entries), default=0)

    @property
    def is_survivable(self) -> bool:
        """Whether the protocol must come to its end.

        A confirmed entry keeps a good copy, Qw−Qa+1 bookies of each write set can answer, and there are E bookies
        whose disks stay: a name stands in an ensemble once, so an emptied bookie cannot take its own place.
        """
        wiped = {fault.bookie for fault in self.faults if isinstance(fault, Wipe)}
        return self.copies_lost_max() < self.shape[2] and self.bookies - len(wiped) >= self.shape[0]
