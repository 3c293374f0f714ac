"""Rules of the writer broken on purpose; see `planted`. Each docstring names the rules that the plant is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ledgers.errors import LedgerError
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import AppendEffect, ChangeRecord
from ledgers.protocol.phase import Phase
from ledgers.protocol.positions import Positions
from ledgers.protocol.shortfall import Shortfall
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import ENTRY_ID_MAX, BookieRef, LedgerRecord
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


@around(Striping, "holds", within=50, known=8)
def sends_entries_to_the_wrong_bookies(holds: Real, self: Striping, position: Any, entry_id: Any) -> Any:
    """W1"""
    return holds(self, position, entry_id + 1)


@instead_of(Striping, "confirmed_through", within=50, known=0)
def confirms_out_of_order(self: Striping, acked_through: dict[int, int], last_pushed: int) -> int:
    """W2: the furthest write set decides, not the nearest."""
    return min(last_pushed, max(quorum.mark(acked_through) for quorum in self.ack_quorums))


@bug(within=1000, known=262)
def counts_late_acks_of_replaced_bookies(patch: Patch) -> None:
    """W2, F9"""
    open_lane = Positions.open_lane

    def remember(self: Positions, position: Any) -> Any:
        opened = open_lane(self, position)
        self.__dict__.setdefault("all_lanes", {})[opened.lane] = position
        return opened

    def acked(self: AppendPipeline, lane: int, through: int) -> list[AppendEffect]:
        position = self._positions.on(lane) or self._positions.__dict__["all_lanes"][lane]
        if through <= position.acked_through:
            return []
        position.acked_through = through
        return self._advance()

    patch.setattr(Positions, "open_lane", remember)
    patch.setattr(AppendPipeline, "acked", acked)


@around(AppendPipeline, "_restart", within=2000, known=109)
def does_not_withdraw_acks_of_replaced_bookies(
    restart: Real, self: AppendPipeline, numbers: Iterable[int]
) -> Any:
    """W3, F8"""
    kept = [position.acked_through for position in self._positions]
    effects = restart(self, numbers)
    for position, acked_through in zip(self._positions, kept, strict=True):
        position.acked_through = acked_through
    return effects


@instead_of(AppendPipeline, "_restart", within=200, known=45)
def does_not_send_pending_entries_again(self: AppendPipeline, numbers: Iterable[int]) -> list[AppendEffect]:
    """W3, F8"""
    effects: list[AppendEffect] = []
    for n in numbers:
        self._positions[n].acked_through = self.last_add_confirmed
        effects.append(self._positions.open_lane(self._positions[n]))
    return effects


@bug(within=50, known=4)
def uses_new_bookies_before_the_change_stands(patch: Patch) -> None:
    """W4, F6"""
    propose = AppendPipeline._propose

    def broken(self: AppendPipeline, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        effects = propose(self, new)
        return effects if self._recovery else [*effects, *self._use_proposed()]

    def changed(self: AppendPipeline, record: LedgerRecord) -> list[AppendEffect]:
        self.record = record
        return self._end(None) if self.phase is Phase.CLOSING else []

    patch.setattr(AppendPipeline, "_propose", broken)
    patch.setattr(AppendPipeline, "changed", changed)


@around(AppendPipeline, "_advance", within=3000, known=21)
def confirms_while_a_change_is_in_flight(advance: Real, self: AppendPipeline) -> Any:
    """W4, F7"""
    phase = self.phase
    if phase is Phase.CHANGING:
        self.phase = Phase.WRITING
    try:
        return advance(self)
    finally:
        self.phase = phase


@around(AppendPipeline, "_propose", within=50, known=4)
def begins_the_fragment_behind_what_was_pushed(
    propose: Real, self: AppendPipeline, new: Mapping[int, BookieRef]
) -> Any:
    """W4: the new fragment begins after the last pushed entry, not after the LAC."""
    lac, self.last_add_confirmed = self.last_add_confirmed, self.last_add_pushed
    try:
        return propose(self, new)
    finally:
        self.last_add_confirmed = lac


@instead_of(AppendPipeline, "_conflict_while_changing", within=200, known=4)
def writer_ignores_that_recovery_has_begun(self: AppendPipeline, found: Any) -> Any:
    """W4, F16"""
    return self._use_proposed()


@instead_of(AppendPipeline, "change_failed", within=100, known=3)
def takes_an_unknown_outcome_for_success(self: AppendPipeline, error: LedgerError) -> list[AppendEffect]:
    """M1, F17"""
    return [] if self.has_ended else self.changed(self.record)


@instead_of(Striping, "confirmed_through", within=20, known=0)
def waits_for_the_slowest_bookie(self: Striping, acked_through: dict[int, int], last_pushed: int) -> int:
    """W6: an entry is confirmed when all of its write set have it."""
    return min(last_pushed, *acked_through.values())


@instead_of(AppendPipeline, "refused", within=4000, known=1234)
def goes_on_when_it_is_fenced(self: AppendPipeline, lane: int, error: LedgerError) -> list[AppendEffect]:
    """W5: no entry is lost by it (F22), but a writer that tries for ever serves nobody."""
    return self.lane_failed(lane, str(error))


@instead_of(AppendPipeline, "written", within=200, known=12)
def takes_written_for_durable(self: AppendPipeline, lane: Any, through: Any) -> Any:
    """W3, B1: with deferred sync, what is in the bookies' logs counts as on their disks."""
    return self.acked(lane, through)


@instead_of(AppendPipeline, "_close_if_ready", within=200, known=10)
def closes_at_the_last_pushed_entry(self: AppendPipeline) -> list[AppendEffect]:
    """C1, F18"""
    if not self._close_asked or self.phase is not Phase.WRITING:
        return []
    self.phase = Phase.CLOSING
    return [ChangeRecord(self.record.closed(self.last_add_pushed, self.confirmed_length))]


@around(AppendPipeline, "_conflict_while_closing", within=500, known=92)
def takes_any_close_for_its_own(conflict: Real, self: AppendPipeline, found: LedgerRecord) -> Any:
    """C1: found closed at another entry, the writer says that its close has succeeded."""
    if found.is_closed:
        return self._end(None)
    return conflict(self, found)


@around(Positions, "__init__", within=200, known=6)
def counts_an_absent_bookie_for_the_ack_quorum(begin: Real, self: Positions, *asked: Any) -> None:
    """W9: a bookie that was absent when the ledger was created has acknowledged nothing."""
    begin(self, *asked)
    for position in self:
        if position.failure:
            position.acked_through = position.written_through = ENTRY_ID_MAX


@around(Shortfall, "withdrawn", within=3000, known=1042)
def forgets_what_an_absent_bookie_lacks_once_it_is_back(
    withdrawn: Real, self: Shortfall, position: int, acked_through: int, confirmed_through: int
) -> None:
    """W9"""
    if position not in self._absent:
        withdrawn(self, position, acked_through, confirmed_through)
