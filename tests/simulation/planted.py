"""Rules broken on purpose, one at a time, to see that the random schedules would find such a bug.

Each docstring names the schedule or rule that the plant is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bookie.core import Answer, BookieCore, Effect
from bookie.ledger_state import Fence
from bookie.wire import Frame, ReadReply, Status
from ledgers.effects import ChangeRecord, RecoveryEffect
from ledgers.fenced_reads import FencedReads, Replica
from ledgers.recovery import Recovery, Stage
from ledgers.striping import Striping
from metadata.ledger_record import LedgerRecord

from . import servers
from .clients import Recoverer
from .planted_in_writer import (
    closes_at_the_last_pushed_entry,
    confirms_out_of_order,
    confirms_while_a_change_is_in_flight,
    counts_late_acks_of_replaced_bookies,
    does_not_send_pending_entries_again,
    does_not_withdraw_acks_of_replaced_bookies,
    takes_an_unknown_outcome_for_success,
    uses_new_bookies_before_the_change_stands,
    writer_ignores_that_recovery_has_begun,
)

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def reads_without_fencing(patch: Patch) -> None:
    """F1"""

    def broken(self: servers.SimulatedBookie, ledger_id: int, first: int, last: int, answer: Any) -> None:
        answer(self.page(ledger_id, first, last))

    patch.setattr(servers.SimulatedBookie, "read", broken)


def answers_a_fence_before_it_is_on_disk(patch: Patch) -> None:
    """R1, F13"""
    fence = BookieCore.fence

    def broken(self: BookieCore, ledger_id: int, ticket: object) -> list[Effect]:
        return [*fence(self, ledger_id, _deaf), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "fence", broken)


def acknowledges_before_it_is_on_disk(patch: Patch) -> None:
    """B1, F14"""
    append = BookieCore.append

    def broken(self: BookieCore, frame: Frame, ticket: object) -> list[Effect]:
        effects = append(self, frame, ticket)
        if isinstance(effects[0], Answer):
            return effects
        return [replace(effects[0], ticket=_deaf), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "append", broken)


def takes_adds_of_a_fenced_ledger(patch: Patch) -> None:
    """R1"""
    append = BookieCore.append
    patch.setattr(BookieCore, "append", lambda s, frame, t: append(s, replace(frame, recovery=True), t))


def forgets_a_fence_at_a_crash(patch: Patch) -> None:
    """R1, F13"""
    start = servers.SimulatedBookie._start

    def broken(self: servers.SimulatedBookie) -> None:
        start(self)
        for state in self._states.values():
            state.fence = Fence.NONE

    patch.setattr(servers.SimulatedBookie, "_start", broken)


def takes_silence_for_absence(patch: Patch) -> None:
    """F12"""

    def broken(self: FencedReads, position: int, why: str) -> None:
        self.replicas[position].reading = False
        self.replicas[position].covered_through += 1

    patch.setattr(FencedReads, "failed", broken)


def takes_an_io_error_for_absence(patch: Patch) -> None:
    """F11"""
    answered = FencedReads.answered

    def broken(self: FencedReads, position: int, reply: ReadReply) -> None:
        if reply.status is Status.IO_ERROR:
            covered = self.replicas[position].covered_through + 1
            reply = ReadReply(Status.NO_SUCH_LEDGER, covered_through=covered)
        answered(self, position, reply)

    patch.setattr(FencedReads, "answered", broken)


def takes_damage_for_absence(patch: Patch) -> None:
    """F11"""

    def broken(self: Replica, entry_id: int) -> bool:
        return entry_id <= self.covered_through and entry_id not in self.entries

    patch.setattr(Replica, "lacks", broken)


def one_absence_is_enough(patch: Patch) -> None:
    """R3"""
    verdict = FencedReads.verdict

    def broken(self: FencedReads, entry_id: int) -> Any:
        striping = Striping(self._striping.shape)
        striping.__dict__["absent_quorums"] = tuple(replace(q, needed=1) for q in striping.absent_quorums)
        kept, self._striping = self._striping, striping
        try:
            return verdict(self, entry_id)
        finally:
            self._striping = kept

    patch.setattr(FencedReads, "verdict", broken)


def does_not_wait_until_enough_are_fenced(patch: Patch) -> None:
    """R2; safe alone (F22)"""

    def broken(self: Recovery) -> list[RecoveryEffect]:
        return self._begin_reading() if self._fenced else []

    patch.setattr(Recovery, "_read_if_fenced", broken)


def starts_before_the_last_fragment(patch: Patch) -> None:
    """F2"""
    begin = Recovery._begin_reading

    def broken(self: Recovery) -> list[RecoveryEffect]:
        self._last_fragment = replace(self._last_fragment, first_entry=0, length_before=0)
        return begin(self)

    patch.setattr(Recovery, "_begin_reading", broken)


def does_not_wait_for_what_is_written_back(patch: Patch) -> None:
    """R4"""

    def broken(self: Recovery) -> list[RecoveryEffect]:
        pipeline, last = self._write_back, self._last_entry
        assert pipeline is not None and last is not None
        if self.stage is not Stage.READING:
            return []
        self.stage = Stage.CLOSING
        return [ChangeRecord(pipeline.record.closed(last, pipeline.confirmed_length))]

    patch.setattr(Recovery, "_close_if_written_back", broken)


def reads_from_the_changed_ensemble(patch: Patch) -> None:
    """F4"""
    read_more = Recovery._read_more

    def broken(self: Recovery) -> list[RecoveryEffect]:
        assert self._write_back is not None
        self._last_fragment = self._write_back.record.fragments[-1]
        for replica in self._reads.replicas if self._reads else ():
            replica.failure = ""
        return read_more(self)

    patch.setattr(Recovery, "_read_more", broken)


def recovery_tells_an_advancing_lac(patch: Patch) -> None:
    """F5"""

    def broken(self: Recovery) -> Any:
        pipeline = self._write_back
        if pipeline is None or pipeline.last_add_confirmed < 0:
            return None
        return self._digester.sign_lac(pipeline.last_add_confirmed, pipeline.confirmed_length)

    patch.setattr(Recoverer, "lac_statement", lambda self: broken(self.machine()))


def closes_without_comparing_versions(patch: Patch) -> None:
    """F18, R5: no version is compared."""
    swap = servers.SimulatedMetadata._swap

    def broken(self: servers.SimulatedMetadata, record: LedgerRecord, version: int) -> bool:
        return swap(self, record, self.stands.version if record.is_closed else version)

    patch.setattr(servers.SimulatedMetadata, "_swap", broken)


def _deaf(status: Status, detail: str) -> None:
    """Has been answered."""


FOUND: tuple[Plant, ...] = (
    confirms_while_a_change_is_in_flight,
    does_not_withdraw_acks_of_replaced_bookies,
    counts_late_acks_of_replaced_bookies,
    does_not_send_pending_entries_again,
    uses_new_bookies_before_the_change_stands,
    takes_an_unknown_outcome_for_success,
    writer_ignores_that_recovery_has_begun,
    closes_at_the_last_pushed_entry,
    confirms_out_of_order,
    reads_without_fencing,
    answers_a_fence_before_it_is_on_disk,
    acknowledges_before_it_is_on_disk,
    takes_adds_of_a_fenced_ledger,
    takes_silence_for_absence,
    takes_an_io_error_for_absence,
    takes_damage_for_absence,
    one_absence_is_enough,
    starts_before_the_last_fragment,
    does_not_wait_for_what_is_written_back,
    reads_from_the_changed_ensemble,
    recovery_tells_an_advancing_lac,
    closes_without_comparing_versions,
)

NOT_FOUND_SOON: tuple[Plant, ...] = (
    forgets_a_fence_at_a_crash,  # about one seed in six thousand
    does_not_wait_until_enough_are_fenced,  # safe by itself: recovery reads fence too (F22)
)
