"""Rules of bookies broken on purpose; see `planted`. Each docstring names the rules that the plant is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bookie.index.local_ledger_state import Fence
from bookie.storage.core import Answer, BookieCore, Effect, Write
from bookie.wire import Frame, Status
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import FailSync
from tests.simulation.cores.site import servers
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


def _deaf(status: Status, detail: str) -> None:
    """Has been answered."""


@around(BookieCore, "fence", within=100, known=2)
def answers_a_fence_before_it_is_on_disk(
    fence: Real, self: BookieCore, ledger_id: int, ticket: object
) -> Any:
    """R1, F13"""
    return [*fence(self, ledger_id, _deaf), Answer(ticket, Status.OK)]


@around(servers.SimulatedBookie, "_start", within=50, known=3)
def forgets_a_fence_at_a_crash(start: Real, self: servers.SimulatedBookie) -> None:
    """R1, F13"""
    start(self)
    for state in self._states.values():
        state.fence = Fence.NONE


@bug(within=4000, known=1269)
def forgets_a_fence_unseen(patch: Patch) -> None:
    """R1, F13: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    forgets_a_fence_at_a_crash(patch)


@around(BookieCore, "fence", within=50, known=0)
def does_not_fence_what_it_has_never_seen(
    fence: Real, self: BookieCore, ledger_id: int, ticket: object
) -> Any:
    """R1, F1"""
    if not self._state_of(ledger_id).known:
        return [Answer(ticket, Status.OK)]
    return fence(self, ledger_id, ticket)


@bug(within=200, known=15)
def does_not_fence_what_it_has_never_seen_unseen(patch: Patch) -> None:
    """R1, F1: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    does_not_fence_what_it_has_never_seen(patch)


@around(BookieCore, "append", within=50, known=0)
def takes_adds_of_a_fenced_ledger(append: Real, self: BookieCore, frame: Any, ticket: Any) -> Any:
    """R1"""
    return _unmarked(append(self, replace(frame, recovery=True), ticket), frame)


def _unmarked(effects: list[Effect], frame: Frame) -> list[Effect]:
    return [
        effect._replace(record=effect.record._replace(recovery=frame.recovery))
        if isinstance(effect, Write)
        else effect
        for effect in effects
    ]


@around(BookieCore, "append", within=20, known=6)
def acknowledges_before_it_is_on_disk(append: Real, self: BookieCore, frame: Frame, ticket: object) -> Any:
    """B1, F14"""
    effects = append(self, frame, ticket)
    if isinstance(effects[0], Answer):
        return effects
    return [effects[0]._replace(ticket=_deaf), Answer(ticket, Status.OK)]


@instead_of(servers.SimulatedBookie, "_die_of", within=1000, known=5)
def goes_on_after_a_failed_sync(self: servers.SimulatedBookie, failure: FailSync) -> None:
    """B1: what was lost with the page cache is acknowledged by the next sync."""
    group, self._unsynced = self._unsynced, []
    for lost in group:
        if lost.ticket is not None:
            self._perform([Answer(lost.ticket, Status.OK)])


@around(servers.SimulatedBookie, "_start", within=50, known=5)
def forgets_an_entry_at_a_crash(start: Real, self: servers.SimulatedBookie) -> None:
    """B2"""
    if self.entries:
        self.entries.popitem()
    start(self)


@bug(within=500, known=131)
def forgets_an_entry_unseen(patch: Patch) -> None:
    """B2, F14: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    forgets_an_entry_at_a_crash(patch)


@instead_of(servers.SimulatedBookie, "_is_another", within=2000, known=245)
def answers_for_another_incarnation(self: servers.SimulatedBookie, incarnation: Any) -> Any:
    """W7, F15"""
    return False


@around(servers.SimulatedBookie, "page", within=2000, known=46)
def omits_a_damaged_copy(page: Real, self: servers.SimulatedBookie, request: Any) -> Any:
    """R6, F11: the bookie itself says "no such entry" of a copy that it cannot read."""
    return replace(page(self, request), damaged=())
