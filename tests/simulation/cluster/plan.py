"""What happens in one run, all of it, as a value: printed, changed, made smaller, kept in a test.

`repr` of a plan is Python that makes the same plan again; what stands at its default is left out. Times are virtual
seconds from the start. Hosts are called b0, b1, …; users by what they do: w0 … write, f00 … follow; the store metadata.
"""

from __future__ import annotations

from tests.simulation.cores.plans.plan import Cut as Cut  # a printed plan names these, too
from tests.simulation.cores.plans.plan import Fault, Figures, Rule
from tests.simulation.cores.plans.plan import LeaseLost as LeaseLost
from tests.simulation.cores.plans.plan import Pause as Pause
from tests.simulation.cores.plans.plan import StoreAway as StoreAway
from tests.simulation.cores.plans.plan import WatchGap as WatchGap
from tests.simulation.engine.printed import Listing, Value

LOSSES = ("chaos", "ordered", "garbage")
"""What a power cut leaves of what was not synced (`simulated_disk.Loss`)."""


class User(Value):
    """An application with a client of its own. `of`: whose ledger it uses; begins at `at`."""

    name: str
    does: str
    of: str = ""
    at: float = 0.0


# --- what goes wrong ----------------------------------------------------------------------------


class AtHost(Fault):
    """It happens to this host."""

    host: str


class HostFault(AtHost):
    """It ends the host's process, and more."""


class DiskFault(AtHost):
    """It happens to the host's disk, and the process goes on."""


class Kill(HostFault):
    """SIGKILL: the process is gone, the machine goes on. It is started again after `seconds`."""

    seconds: float = 5.0


class Stop(HostFault):
    """SIGTERM: the process ends in order, and is started again `seconds` after that."""

    seconds: float = 5.0


class PowerCut(HostFault):
    """The power goes before the `operation`th change of the disk from then on, and comes back after `seconds`."""

    operation: int = 0
    seconds: float = 5.0
    loss: str = "chaos"


class SyncFails(DiskFault):
    """A sync fails, after so many good ones: the process must end without acknowledging (B1)."""

    after: int = 0


class ReadsFail(DiskFault):
    """Reads of a part of the log fail with EIO, for a while."""

    seconds: float = 20.0


class DiskFull(DiskFault):
    """So many bytes are left on the disk, for a while."""

    left: int = 0
    seconds: float = 20.0


class DiskSlow(DiskFault):
    """Whatever a thread does takes so many times as long, for a while; a hung disk does nothing at all."""

    factor: float = 300.0
    seconds: float = 20.0


class Rots(DiskFault):
    """Bytes of a record that was on the platter are others, for good."""

    nth: int = 0


class DiskLost(HostFault):
    """The machine gets an empty disk: it is formatted anew under its old name, and started."""

    seconds: float = 20.0


class DiskRestored(HostFault):
    """The disk is as it was `age` seconds ago. The bookie refuses it, and is started so that it accepts the loss."""

    age: float = 5.0


class DisksExchanged(HostFault):
    """Two machines are started with each other's disks."""

    other: str


class Maintained(AtHost):
    """An operator has a bookie collect, scrub or repair."""

    what: str = "COLLECT"


class Drained(AtHost):
    """An operator has a bookie drained, and after a while takes that back."""

    seconds: float = 10.0


class Moved(Fault):
    """An operator has copies of every ledger moved to bookies that hold none of it; `nth` says which, and where to."""

    nth: int = 0


class NewerRecord(Fault):
    """A program of a later version has written this key."""

    key: str


class KeyLost(Fault):
    """The bookie's registration is gone and its lease is not: a store that was restored from a backup."""

    bookie: str


class Leaves(Fault):
    """A user's process is killed: nothing of it happens any more. `in_order`: its client is closed instead."""

    user: str
    in_order: bool = False


class Plan(Listing):
    """One run. `pace`: seconds that a message takes on average; `overtaken`: how often a thread is overtaken where
    it touches the disk; `cancels`: how often an operation is cancelled in the middle; `recover_at`: when all who
    recover begin at once."""

    seed: int
    shape: tuple[int, int, int]
    hosts: int
    pace: float = 0.01
    overtaken: float = 0.05
    cancels: float = 0.0
    has_password: bool = False
    has_big_entries: bool = False
    recover_at: float | None = None
    figures: Figures = Figures()
    users: tuple[User, ...] = ()
    rules: tuple[Rule, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(f"b{n}" for n in range(self.hosts))
