"""What the simulated clients need of a bookie: the seam at which another layer puts in bookies of its own.

`run_plan(plan, bookie_type=...)` makes each bookie as `bookie_type(world, ref, checker, figures)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bookie.wire import Frame, LacReply, LacRequest, ReadReply, ReadRequest, Status
from metadata.records.ledger_record import BookieRef
from metadata.records.notes.reconciling import NotedBy
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import DiskFault, Figures
from tests.simulation.engine.world import Action, World

OnAnswer = Callable[[Status, str], None]


class BookieServer(Protocol):
    """One name and its present disk. Answers may come later, or never; requests may come twice.

    A request that names another incarnation than `ref.incarnation` is answered WRONG_INCARNATION.
    """

    ref: BookieRef
    up: bool
    generation: int
    """Rises whenever the process dies: a connection belongs to one generation."""

    @property
    def noted(self) -> list[NotedBy]:
        """What it was told of the ledger, besides entries."""
        ...

    def deliver(self, event: Action) -> None:
        """A message has arrived: it is served now, after a pause, or never where the process is down."""
        ...

    def append(self, incarnation: str, frame: Frame, answer: OnAnswer) -> None: ...
    def told(self, incarnation: str, frame: Frame) -> None: ...
    def last_add_confirmed(self, request: LacRequest, answer: Callable[[LacReply], None]) -> None: ...
    def read(self, request: ReadRequest, answer: Callable[[ReadReply], None]) -> None: ...

    def pause(self, seconds: float) -> None: ...
    def wake(self) -> None: ...

    def crash(self, keeps: float = 0.0) -> None:
        """Power is lost; of what was not synced the first part survives, a share `keeps` of it."""
        ...

    def restart(self) -> None:
        """Comes back with what is on its disk, if it is down."""
        ...

    def damage(self, fault: DiskFault) -> None:
        """Something happens to its disk."""
        ...

    def mount(self, *, foreign: bool) -> None:
        """Another bookie's disk is in this machine, so that it refuses to start; or its own is back."""
        ...

    def heal(self) -> None:
        """Its disk works from here on. What was lost stays lost, and rotten copies stay rotten."""
        ...

    def check_idle(self) -> None:
        """At the end of a run nothing waits in it any more. Raises Violation."""
        ...


BookieType = Callable[[World, BookieRef, Checker, Figures], BookieServer]
