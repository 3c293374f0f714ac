"""What happens to one bookie, all of it, as a value: printed, changed, made smaller, kept in a test.

`repr` of a plan is Python that makes the same plan again. Steps come one after the other; one that is `beside` is
begun, and the next one does not wait for it. A ledger is there when the first step names it.
"""

from __future__ import annotations

from tests.simulation.engine.printed import Listing, Value

CRASHES = ("chaos", "ordered", "garbage", "kill")
"""What the power cut leaves of what was not synced (`simulated_disk.Loss`); `kill` leaves all of it."""

ROTS = ("one bit", "a sector", "a lost write", "a misdirected write", "the header")


# --- clients ------------------------------------------------------------------------------------


class Append(Value):
    """A frame with those of these entries that the metadata places here; with `recovery` from a recoverer."""

    ledger: int
    first: int = 0
    entries: int = 1
    lac: bool = False
    recovery: bool = False
    deferred: bool = False
    beside: bool = False


class Fence(Value):
    """Somebody fences the ledger here."""

    ledger: int
    beside: bool = False


class Read(Value):
    """A page is asked for."""

    ledger: int
    first: int = 0
    bytes_max: int = 600
    beside: bool = False


# --- the metadata -------------------------------------------------------------------------------


class Change(Value):
    """The writer changes its ensemble: this bookie leaves it, or joins it."""

    ledger: int


class Recovering(Value):
    """A recoverer marks the ledger; what it writes back may come here before the metadata says so (rule R4)."""

    ledger: int


class Close(Value):
    """The ledger is closed behind everything that was acknowledged here."""

    ledger: int


class Move(Value):
    """Another bookie's repair takes what a closed ledger places here."""

    ledger: int


class Delete(Value):
    """The ledger is deleted: a tombstone stays."""

    ledger: int


class Unlist(Value):
    """The metadata has never heard of the ledger: it was restored from a backup, say."""

    ledger: int


class StoreFails(Value):
    """After so many more requests one of the bookie's to the metadata fails."""

    after: int = 0


class Lie(Value):
    """The next listing calls a ledger deleted that is not: what rule B3 asks once more for."""

    ledger: int


# --- upkeep -------------------------------------------------------------------------------------


class Collect(Value):
    misplaced: bool = True
    beside: bool = False


class Compact(Value):
    ratio: float = 0.9
    beside: bool = False


class Checkpoint(Value):
    beside: bool = False


class Scrub(Value):
    beside: bool = False


class Repair(Value):
    """All ledgers in limbo are repaired."""

    beside: bool = False


class Adopt(Value):
    """This bookie takes over what a lost one of this name has."""

    bookie: str = "b4"
    beside: bool = False


# --- what goes wrong ----------------------------------------------------------------------------


class Crash(Value):
    """The power goes before the n-th change of the disk or the index from now, and if `again` is set before that of
    the next start too."""

    after: int = 0
    how: str = "chaos"
    again: int | None = None


class FailSync(Value):
    """A sync fails, after so many good ones; the process ends (rule B1), and its page cache lives on."""

    after: int = 0


class Rot(Value):
    """A record that is on disk becomes something else."""

    nth: int = 0
    how: str = "one bit"


class LosePlace(Value):
    """The index loses a frame, as it has no checksums of its own; a scrub comes before anything else."""

    nth: int = 0


class PeersFail(Value):
    """The other replicas cannot be reached the next n times they are asked."""

    times: int = 1


# --- what ends a life of the process ------------------------------------------------------------


class Restart(Value):
    """The process ends, `cleanly` or killed, and the next begins."""

    cleanly: bool = True


class LoseIndex(Value):
    """… with an empty index."""

    cleanly: bool = True


class RebuildIndex(Value):
    """… with an index made anew by `rebuild-index`."""

    cleanly: bool = True


class OlderCopy(Value):
    """… and vouches for nothing: the operator has accepted that something may be lost."""

    cleanly: bool = True


class LoseSegment(Value):
    """… without one of the sealed segments."""

    nth: int = 0
    cleanly: bool = False


Client = Append | Fence | Read
Metadata = Change | Recovering | Close | Move | Delete | Unlist | StoreFails | Lie
Chore = Collect | Compact | Checkpoint | Scrub | Repair | Adopt
Fault = Crash | FailSync | Rot | LosePlace | PeersFail
End = Restart | LoseIndex | RebuildIndex | OlderCopy | LoseSegment
Step = Client | Metadata | Chore | Fault | End


class Sizes(Value):
    """The product's own bounds, small enough to be met in a run, and the figures of the machine."""

    segment: int = 1500
    group: int = 600
    step: int = 400
    batch: int = 300
    states: int = 4
    few: int = 2
    """Ledgers or frames that are handled together."""

    payload: int = 20
    overtaken: float = 0.2
    """How often a thread is overtaken where it touches the disk."""


class Plan(Listing):
    seed: int
    sizes: Sizes = Sizes()
    steps: tuple[Step, ...] = ()
