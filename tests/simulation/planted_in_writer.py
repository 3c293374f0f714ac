"""Rules of the writer broken on purpose; see `planted`.

Each docstring names the schedule or rule that the plant is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from ledgers.append import AppendPipeline, Phase
from ledgers.effects import AppendEffect, ChangeRecord
from ledgers.errors import LedgerError
from ledgers.striping import Striping
from metadata.ledger_record import BookieRef, LedgerRecord

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def confirms_while_a_change_is_in_flight(patch: Patch) -> None:
    """F7"""
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


def does_not_withdraw_acks_of_replaced_bookies(patch: Patch) -> None:
    """F8"""
    restart = AppendPipeline._restart

    def broken(self: AppendPipeline, numbers: Iterable[int]) -> list[AppendEffect]:
        kept = [position.acked_through for position in self._positions]
        effects = restart(self, numbers)
        for position, acked_through in zip(self._positions, kept, strict=True):
            position.acked_through = acked_through
        return effects

    patch.setattr(AppendPipeline, "_restart", broken)


def counts_late_acks_of_replaced_bookies(patch: Patch) -> None:
    """F9"""
    open_lane, on = AppendPipeline._open_lane, AppendPipeline._on

    def remember(self: AppendPipeline, position: Any) -> Any:
        opened = open_lane(self, position)
        self.__dict__.setdefault("all_lanes", {})[opened.lane] = position
        return opened

    def acked(self: AppendPipeline, lane: int, through: int) -> list[AppendEffect]:
        position = on(self, lane) or self.__dict__["all_lanes"][lane]
        if through <= position.acked_through:
            return []
        position.acked_through = through
        return self._advance()

    patch.setattr(AppendPipeline, "_open_lane", remember)
    patch.setattr(AppendPipeline, "acked", acked)


def does_not_send_pending_entries_again(patch: Patch) -> None:
    """F8"""

    def broken(self: AppendPipeline, numbers: Iterable[int]) -> list[AppendEffect]:
        effects: list[AppendEffect] = []
        for n in numbers:
            self._positions[n].acked_through = self.last_add_confirmed
            effects.append(self._open_lane(self._positions[n]))
        return effects

    patch.setattr(AppendPipeline, "_restart", broken)


def uses_new_bookies_before_the_change_stands(patch: Patch) -> None:
    """F6"""
    propose = AppendPipeline._propose

    def broken(self: AppendPipeline, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        effects = propose(self, new)
        return effects if self._recovery else [*effects, *self._use_proposed()]

    def changed(self: AppendPipeline, record: LedgerRecord) -> list[AppendEffect]:
        self.record = record
        return self._end(None) if self.phase is Phase.CLOSING else []

    patch.setattr(AppendPipeline, "_propose", broken)
    patch.setattr(AppendPipeline, "changed", changed)


def takes_an_unknown_outcome_for_success(patch: Patch) -> None:
    """F17"""

    def broken(self: AppendPipeline, error: LedgerError) -> list[AppendEffect]:
        return [] if self.has_ended else self.changed(self.record)

    patch.setattr(AppendPipeline, "change_failed", broken)


def writer_ignores_that_recovery_has_begun(patch: Patch) -> None:
    """F16"""

    def broken(self: AppendPipeline, found: LedgerRecord) -> list[AppendEffect]:
        return self._use_proposed()

    patch.setattr(AppendPipeline, "_conflict_while_changing", broken)


def closes_at_the_last_pushed_entry(patch: Patch) -> None:
    """C1, F18"""

    def broken(self: AppendPipeline) -> list[AppendEffect]:
        if not self._close_asked or self.phase is not Phase.WRITING:
            return []
        self.phase = Phase.CLOSING
        return [ChangeRecord(self.record.closed(self.last_add_pushed, self.confirmed_length))]

    patch.setattr(AppendPipeline, "_close_if_ready", broken)


def confirms_out_of_order(patch: Patch) -> None:
    """W2: the furthest write set decides, not the nearest."""

    def broken(self: Striping, acked_through: dict[int, int], last_pushed: int) -> int:
        return min(last_pushed, max(quorum.mark(acked_through) for quorum in self.ack_quorums))

    patch.setattr(Striping, "confirmed_through", broken)
