"""Rules of the writer broken on purpose; see `planted`. Each docstring names the rules that the plant is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ledgers.errors import LedgerError
from ledgers.protocol.append import AppendPipeline
from ledgers.protocol.effects import AppendEffect, ChangeRecord
from ledgers.protocol.phase import Phase
from ledgers.protocol.positions import Positions
from ledgers.protocol.shortfall import Shortfall
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import ENTRY_ID_MAX, BookieRef, LedgerRecord

Patch = pytest.MonkeyPatch


def sends_entries_to_the_wrong_bookies(patch: Patch) -> None:
    """W1"""
    holds = Striping.holds
    patch.setattr(Striping, "holds", lambda self, position, entry_id: holds(self, position, entry_id + 1))


def confirms_out_of_order(patch: Patch) -> None:
    """W2: the furthest write set decides, not the nearest."""

    def broken(self: Striping, acked_through: dict[int, int], last_pushed: int) -> int:
        return min(last_pushed, max(quorum.mark(acked_through) for quorum in self.ack_quorums))

    patch.setattr(Striping, "confirmed_through", broken)


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


def does_not_withdraw_acks_of_replaced_bookies(patch: Patch) -> None:
    """W3, F8"""
    restart = AppendPipeline._restart

    def broken(self: AppendPipeline, numbers: Iterable[int]) -> list[AppendEffect]:
        kept = [position.acked_through for position in self._positions]
        effects = restart(self, numbers)
        for position, acked_through in zip(self._positions, kept, strict=True):
            position.acked_through = acked_through
        return effects

    patch.setattr(AppendPipeline, "_restart", broken)


def does_not_send_pending_entries_again(patch: Patch) -> None:
    """W3, F8"""

    def broken(self: AppendPipeline, numbers: Iterable[int]) -> list[AppendEffect]:
        effects: list[AppendEffect] = []
        for n in numbers:
            self._positions[n].acked_through = self.last_add_confirmed
            effects.append(self._positions.open_lane(self._positions[n]))
        return effects

    patch.setattr(AppendPipeline, "_restart", broken)


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


def confirms_while_a_change_is_in_flight(patch: Patch) -> None:
    """W4, F7"""
    advance = AppendPipeline._advance

    def broken(self: AppendPipeline) -> list[AppendEffect]:
        phase = self.phase
        if phase is Phase.CHANGING:
            self.phase = Phase.WRITING
        try:
            return advance(self)
        finally:
            self.phase = phase

    patch.setattr(AppendPipeline, "_advance", broken)


def begins_the_fragment_behind_what_was_pushed(patch: Patch) -> None:
    """W4: the new fragment begins after the last pushed entry, not after the LAC."""
    propose = AppendPipeline._propose

    def broken(self: AppendPipeline, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        lac, self.last_add_confirmed = self.last_add_confirmed, self.last_add_pushed
        try:
            return propose(self, new)
        finally:
            self.last_add_confirmed = lac

    patch.setattr(AppendPipeline, "_propose", broken)


def writer_ignores_that_recovery_has_begun(patch: Patch) -> None:
    """W4, F16"""
    patch.setattr(AppendPipeline, "_conflict_while_changing", lambda self, found: self._use_proposed())


def takes_an_unknown_outcome_for_success(patch: Patch) -> None:
    """M1, F17"""

    def broken(self: AppendPipeline, error: LedgerError) -> list[AppendEffect]:
        return [] if self.has_ended else self.changed(self.record)

    patch.setattr(AppendPipeline, "change_failed", broken)


def waits_for_the_slowest_bookie(patch: Patch) -> None:
    """W6: an entry is confirmed when all of its write set have it."""

    def broken(self: Striping, acked_through: dict[int, int], last_pushed: int) -> int:
        return min(last_pushed, *acked_through.values())

    patch.setattr(Striping, "confirmed_through", broken)


def goes_on_when_it_is_fenced(patch: Patch) -> None:
    """W5: no entry is lost by it (F22), but a writer that tries for ever serves nobody."""

    def broken(self: AppendPipeline, lane: int, error: LedgerError) -> list[AppendEffect]:
        return self.lane_failed(lane, str(error))

    patch.setattr(AppendPipeline, "refused", broken)


def takes_written_for_durable(patch: Patch) -> None:
    """W3, B1: with deferred sync, what is in the bookies' logs counts as on their disks."""
    patch.setattr(AppendPipeline, "written", lambda self, lane, through: self.acked(lane, through))


def closes_at_the_last_pushed_entry(patch: Patch) -> None:
    """C1, F18"""

    def broken(self: AppendPipeline) -> list[AppendEffect]:
        if not self._close_asked or self.phase is not Phase.WRITING:
            return []
        self.phase = Phase.CLOSING
        return [ChangeRecord(self.record.closed(self.last_add_pushed, self.confirmed_length))]

    patch.setattr(AppendPipeline, "_close_if_ready", broken)


def takes_any_close_for_its_own(patch: Patch) -> None:
    """C1: found closed at another entry, the writer says that its close has succeeded."""
    conflict = AppendPipeline._conflict_while_closing

    def broken(self: AppendPipeline, found: LedgerRecord) -> list[AppendEffect]:
        if found.is_closed:
            return self._end(None)
        return conflict(self, found)

    patch.setattr(AppendPipeline, "_conflict_while_closing", broken)


def counts_an_absent_bookie_for_the_ack_quorum(patch: Patch) -> None:
    """W9: a bookie that was absent when the ledger was created has acknowledged nothing."""
    begin = Positions.__init__

    def broken(self: Positions, *asked: Any) -> None:
        begin(self, *asked)
        for position in self:
            if position.failure:
                position.acked_through = position.written_through = ENTRY_ID_MAX

    patch.setattr(Positions, "__init__", broken)


def forgets_what_an_absent_bookie_lacks_once_it_is_back(patch: Patch) -> None:
    """W9"""
    withdrawn = Shortfall.withdrawn

    def broken(self: Shortfall, position: int, acked_through: int, confirmed_through: int) -> None:
        if position not in self._absent:
            withdrawn(self, position, acked_through, confirmed_through)

    patch.setattr(Shortfall, "withdrawn", broken)
