"""What happens to one journal, all of it, as a value: printed, changed, made smaller, kept in a test.

`repr` of a plan is Python that makes the same plan again. Times are virtual seconds; a message takes about one, and so
does a batch on its way to disk. Writers are hosts w0, w1 …, readers r0 …, acceptors a0 …; where acceptors live in the
processes of those who use them, they have no hosts of their own.
"""

from __future__ import annotations

from tests.simulation.engine.printed import Listing, Value

ONE = "one"
"""One acceptor, in the process of every writer and reader: the product's default."""

WITHIN = "within"
"""Several acceptors, each in the process of every writer and reader."""

DAEMONS = "daemons"
"""Several acceptors, each a process of its own behind a network."""

FORMS = (ONE, WITHIN, DAEMONS)

DROP, TWICE, LATE = "drop", "twice", "late"
ADMIN = ("", "discard", "upgrade", "rollback", "format")


class Writer(Value):
    """Becomes the writer, and writes segments of batches of so many transactions; tries again after a failure.

    `depth`: batches under way at a time; `purges`: forgets earlier segments as it goes; `leaves_open`: does not
    finalize its last segment.
    """

    at: float
    segments: tuple[tuple[int, ...], ...] = ((1,),)
    depth: int = 1
    attempts: int = 1
    think: float = 0.0
    purges: bool = False
    leaves_open: bool = False


class Reader(Value):
    """Looks so many times, at segments in progress too; or follows the edits as they come."""

    at: float
    looks: int = 2
    every: float = 10.0
    tails: bool = False


class Crash(Value):
    """A process dies; an acceptor's comes back after so long."""

    host: str
    at: float
    down: float = 5.0


class Pause(Value):
    """A process stands still."""

    host: str
    at: float
    seconds: float = 30.0


class Cut(Value):
    """Messages from one host to another are lost for a while; with `kind` only those of that kind."""

    source: str
    target: str
    at: float
    seconds: float = 40.0
    kind: str = ""


class Tamper(Value):
    """The nth message of a kind from one host to another is lost, comes twice, or comes late."""

    kind: str
    source: str
    target: str
    nth: int = 1
    how: str = DROP


Fault = Crash | Pause | Cut | Tamper


class Sync(Value):
    """Somebody brings the acceptors up to date with each other, so many times."""

    at: float
    rounds: int = 3
    every: float = 10.0


class Replace(Value):
    """An acceptor loses everything, and a new one joins under its name; once the one before is whole again."""

    at: float
    acceptor: int = 0


class Figures(Value):
    """How often a message is lost, comes late or twice; how often an effect fails, its answer is lost, or is slow."""

    loss: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    fails: float = 0.0
    unknown: float = 0.0
    slow: float = 0.0
    cache: int = 400
    queue: int = 10_000


class Plan(Listing):
    """One run.

    `heals_at`: no fault after it, and a last writer must succeed. `admin`: what is done when all is quiet. Those who
    sync are hosts s0, s1 …; who replaces acceptors is o0.
    """

    seed: int
    form: str = DAEMONS
    acceptors: int = 3
    writers: tuple[Writer, ...] = ()
    readers: tuple[Reader, ...] = ()
    faults: tuple[Fault, ...] = ()
    figures: Figures = Figures()
    heals_at: float = 200.0
    admin: str = ""
    syncs: tuple[Sync, ...] = ()
    replaced: tuple[Replace, ...] = ()
