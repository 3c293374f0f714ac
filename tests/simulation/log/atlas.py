"""Which damage the cluster must survive: faults stay within what E, Qw and Qa allow, whoever draws them.

A confirmed entry keeps a good copy, and recovery enough bookies to fence and to write to, as long as no entry has lost
Qa−1 copies and Qa−1 disks are gone. Plans that go beyond that by themselves are limited by nothing: for them only
safety is checked.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation.cores.cluster import LEDGER
from tests.simulation.cores.plans.plan import Plan, Wipe

Copy = tuple[int, int]
"""(ledger, entry)"""


class Atlas:
    """What is lost so far in one run."""

    def __init__(self, plan: Plan) -> None:
        ensemble_size, _, ack_quorum = plan.shape
        self._lost_max = ack_quorum - 1 if plan.is_survivable else plan.bookies
        self._lost_bookies = {fault.bookie for fault in plan.faults if isinstance(fault, Wipe)}
        # A writer that delays its ensemble changes is expected to be served by all its bookies in the end; and a
        # wiped bookie does not replace itself under its new incarnation.
        spare = plan.bookies - ensemble_size - len(self._lost_bookies)
        self._refusing_max = 0 if plan.delay_ensemble_change else spare
        self._refusing: set[str] = set()
        self._lost_copies: dict[Copy, set[str]] = {}

    def lose_copies(self, bookie: str, copies: Iterable[Copy]) -> bool:
        """Whether these copies may become unreadable; they are counted as lost if so."""
        ours = [copy for copy in copies if copy[0] == LEDGER]
        if not all(self._is_bearable(bookie, self._lost_copies.get(copy, set())) for copy in ours):
            return False
        for copy in ours:
            self._lost_copies.setdefault(copy, set()).add(bookie)
        return True

    def lose_bookie(self, bookie: str) -> bool:
        """Whether this bookie may refuse to start for ever; it is counted as lost if so."""
        if len(self._refusing | {bookie}) > self._refusing_max:
            return False
        if not all(self._is_bearable(bookie, lost) for lost in (set[str](), *self._lost_copies.values())):
            return False
        self._refusing.add(bookie)
        self._lost_bookies.add(bookie)
        return True

    def _is_bearable(self, bookie: str, lost: set[str]) -> bool:
        return len(lost | self._lost_bookies | {bookie}) <= self._lost_max
