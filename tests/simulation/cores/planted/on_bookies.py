"""Rules of bookies broken on purpose; see `planted`. Each docstring names the rules that the plant is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.index.ledger_state import Fence
from bookie.storage.core import Answer, BookieCore, Effect, Write
from bookie.wire import Frame, Status
from tests.simulation.cores.checks import Checker
from tests.simulation.cores.plans.plan import FailSync
from tests.simulation.cores.site import servers

Patch = pytest.MonkeyPatch


def _deaf(status: Status, detail: str) -> None:
    """Has been answered."""


def answers_a_fence_before_it_is_on_disk(patch: Patch) -> None:
    """R1, F13"""
    fence = BookieCore.fence

    def broken(self: BookieCore, ledger_id: int, ticket: object) -> list[Effect]:
        return [*fence(self, ledger_id, _deaf), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "fence", broken)


def forgets_a_fence_at_a_crash(patch: Patch) -> None:
    """R1, F13"""
    start = servers.SimulatedBookie._start

    def broken(self: servers.SimulatedBookie) -> None:
        start(self)
        for state in self._states.values():
            state.fence = Fence.NONE

    patch.setattr(servers.SimulatedBookie, "_start", broken)


def forgets_a_fence_unseen(patch: Patch) -> None:
    """R1, F13: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    forgets_a_fence_at_a_crash(patch)


def does_not_fence_what_it_has_never_seen(patch: Patch) -> None:
    """R1, F1"""
    fence = BookieCore.fence

    def broken(self: BookieCore, ledger_id: int, ticket: object) -> list[Effect]:
        if not self._state_of(ledger_id).known:
            return [Answer(ticket, Status.OK)]
        return fence(self, ledger_id, ticket)

    patch.setattr(BookieCore, "fence", broken)


def does_not_fence_what_it_has_never_seen_unseen(patch: Patch) -> None:
    """R1, F1: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    does_not_fence_what_it_has_never_seen(patch)


def takes_adds_of_a_fenced_ledger(patch: Patch) -> None:
    """R1"""
    append = BookieCore.append
    patch.setattr(
        BookieCore,
        "append",
        lambda self, frame, ticket: _unmarked(append(self, replace(frame, recovery=True), ticket), frame),
    )


def _unmarked(effects: list[Effect], frame: Frame) -> list[Effect]:
    return [
        effect._replace(record=effect.record._replace(recovery=frame.recovery))
        if isinstance(effect, Write)
        else effect
        for effect in effects
    ]


def acknowledges_before_it_is_on_disk(patch: Patch) -> None:
    """B1, F14"""
    append = BookieCore.append

    def broken(self: BookieCore, frame: Frame, ticket: object) -> list[Effect]:
        effects = append(self, frame, ticket)
        if isinstance(effects[0], Answer):
            return effects
        return [effects[0]._replace(ticket=_deaf), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "append", broken)


def goes_on_after_a_failed_sync(patch: Patch) -> None:
    """B1: what was lost with the page cache is acknowledged by the next sync."""

    def broken(self: servers.SimulatedBookie, failure: FailSync) -> None:
        group, self._unsynced = self._unsynced, []
        for lost in group:
            if lost.ticket is not None:
                self._perform([Answer(lost.ticket, Status.OK)])

    patch.setattr(servers.SimulatedBookie, "_die_of", broken)


def forgets_an_entry_at_a_crash(patch: Patch) -> None:
    """B2"""
    start = servers.SimulatedBookie._start

    def broken(self: servers.SimulatedBookie) -> None:
        if self.entries:
            self.entries.popitem()
        start(self)

    patch.setattr(servers.SimulatedBookie, "_start", broken)


def forgets_an_entry_unseen(patch: Patch) -> None:
    """B2, F14: with nobody looking at the bookies, the lost entry itself must show."""
    patch.setattr(Checker, "watches_bookies", False)
    forgets_an_entry_at_a_crash(patch)


def answers_for_another_incarnation(patch: Patch) -> None:
    """W7, F15"""
    patch.setattr(servers.SimulatedBookie, "_is_another", lambda self, incarnation: False)


def omits_a_damaged_copy(patch: Patch) -> None:
    """R6, F11: the bookie itself says "no such entry" of a copy that it cannot read."""
    page = servers.SimulatedBookie.page
    patch.setattr(
        servers.SimulatedBookie, "page", lambda self, request: replace(page(self, request), damaged=())
    )
