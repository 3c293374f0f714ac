"""What happens in a run: who writes, reads and gives up, and what goes wrong meanwhile. A plan prints as Python."""

from __future__ import annotations

from tests.simulation.cores.plans.plan import Cut, Fault, Figures, StoreAway
from tests.simulation.engine.printed import Listing, Value

LEDGERS = "ledgers"
"""The node of the network that answers for all ledgers."""

FAULTY_SECONDS = 30.0
"""Everything begins within this time."""


__all__ = ["Cut", "Fault", "Figures", "StoreAway"]


class Term(Value):
    """One time as the writer: so many batches of so many records, `together` of them under way at once.

    `ends`: "close", "abandon", or "crash", in which the process is gone from one moment to the next.
    """

    batches: int = 1
    records: int = 1
    together: int = 1
    pause: float = 0.1
    ends: str = "close"


class Writer(Value):
    """A program that takes the log over at this time, and again for each further term.

    `once`: it is a producer, and in each term first appends again what it has no answer for, and before that the last
    `unsure` batches that it has one for. `leads`: it stands for
    election first, and writes as the leader.
    """

    at: float
    terms: tuple[Term, ...] = (Term(),)
    once: bool = False
    unsure: int = 1
    leads: bool = False


class Reader(Value):
    """Follows the log from this time on: from the oldest record, or from the end. `timeout`: of each tail."""

    at: float
    from_end: bool = False
    timeout: float = 5.0


class Truncate(Fault):
    """Somebody gives up this share of all records that the log had; more may be given up already."""

    share: float = 0.5


class Hold(Fault):
    """The log is under legal hold for so long."""

    seconds: float = 5.0


class Rename(Fault):
    """The log gets another name, which another log wants, too, if it is `contested`."""

    contested: bool = False


class Sweep(Fault):
    """An audit deletes ledgers that no log needs."""


class FailLedgers(Fault):
    """Every ledger that is being written fails: too few of its bookies are left. What was under way may be stored."""


class NoBookies(Fault):
    """No ledger is created for so long."""

    seconds: float = 2.0


class RecoverAside(Fault):
    """Somebody recovers the log's last ledger as a ledger, and takes nothing over."""


class ClockStep(Fault):
    """The clock of everybody's machine goes back or forth."""

    seconds: float = -5.0


class MachineClockStep(Fault):
    """The clock of one writer's machine goes back or forth."""

    machine: str = "w0"
    seconds: float = 1_000_000.0


class BookieClockStep(Fault):
    """The clock of one bookie goes back or forth; that of the majority does not."""

    seconds: float = 100.0


class GoesBack(Fault):
    """The metadata goes back to a copy of so many seconds before, and is held back; it is accepted so much later."""

    copy_seconds: float = 5.0
    held_seconds: float = 1.0


class Consumer(Value):
    """Reads from a cursor from this time on, a record each `pause`; after the first it stands still for a while."""

    at: float
    cursor: str = "c0"
    pause: float = 0.1
    stands_seconds: float = 0.0


class Auditor(Value):
    """Somebody believes to be the auditor for so long."""

    at: float
    seconds: float = 10.0


class Keeping(Value):
    """What goes by itself, as `Retention` describes it, who reads, and who does it."""

    age_seconds: float | None = None
    bytes: int | None = None
    cursors: tuple[str, ...] = ()
    cursor_silent_seconds: float | None = None
    consumers: tuple[Consumer, ...] = ()
    auditors: tuple[Auditor, ...] = ()


class SetWriter(Value):
    """Takes a set of logs over at this time, and appends so many records one after the other, each under the next key.

    What it has no answer for it does not append again; where it is fenced it takes the set over anew.
    """

    at: float
    records: int = 10
    pause: float = 0.1


class Member(Value):
    """Is a member of the group for so long, and takes so long for a record. `crashes`: in the end its process dies."""

    at: float
    seconds: float = 20.0
    pause: float = 0.1
    crashes: bool = False


class Growth(Value):
    """Somebody orders the set to have so many times the logs that it has."""

    at: float
    factor: int = 2


TROUBLES = ("", "truncated", "dies", "hangs")


class SetOrder(Value):
    """Somebody orders what all logs of the set have: so many bytes of records, or a hold that begins or ends."""

    at: float
    bytes: int | None = None
    is_held: bool = False


class Stranger(Value):
    """Somebody makes a log of their own under the name that a log of the set would have, and deletes it in the end."""

    at: float
    number: int = 1


class Sharing(Value):
    """A set of logs, and a group that uses it; `start`: where the group begins, "beginning" or "end".

    `trouble`: what the group meets once all is calm: one of its logs is "truncated", or a member "dies" or "hangs".
    """

    logs: int = 1
    writers: tuple[SetWriter, ...] = ()
    members: tuple[Member, ...] = ()
    growths: tuple[Growth, ...] = ()
    start: str = "beginning"
    trouble: str = ""
    orders: tuple[SetOrder, ...] = ()
    strangers: tuple[Stranger, ...] = ()


class Clocks(Value):
    """Bookies tell writers what time it is, from this time on; before that they say nothing."""

    told_from: float = 0.0


class OneEnd(Value):
    """Programs use the log right behind this share of what they append and read. `late`: that of bookies' answers which
    do not have yet the last record that one of them knows to be confirmed."""

    share: float = 0.5
    late: float = 0.5


class ForkOrder(Value):
    """Somebody forks the log, or a fork that is there, at this share of what is left of it, and appends some records.

    Then this share of the fork is given up, it is taken back to this share of its end, if it `restores`, and deleted,
    if it `deletes`. `dies_after`: so many messages after it began to fork its process dies.
    """

    at: float
    of_fork: bool = False
    share: float = 1.0
    records: int = 2
    gives_up: float = 0.0
    deletes: bool = False
    restores: float | None = None
    dies_after: int | None = None


class Forking(Value):
    """Forks of the log. In the end the log is deleted before these, if it is `deleted_first`."""

    orders: tuple[ForkOrder, ...] = ()
    deleted_first: bool = False


class Plan(Listing):
    """One run. `pace_seconds`: of a message. `page_segments`: so few make a page, that some are turned."""

    seed: int
    writers: tuple[Writer, ...] = ()
    readers: tuple[Reader, ...] = ()
    events: tuple[Fault, ...] = ()
    figures: Figures = Figures()
    pace_seconds: float = 0.01
    roll_records: int = 10
    roll_seconds: float = 1000.0
    page_segments: int = 2
    keeping: Keeping | None = None
    sharing: Sharing | None = None
    clocks: Clocks | None = None
    one_end: OneEnd | None = None
    forking: Forking | None = None
