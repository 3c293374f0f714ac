"""Rules of recovery and of readers broken on purpose; see `planted`. Each docstring names what the plant is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bookie.wire import Columns, ReadReply, Status
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.fenced_reads import FencedReads, Replica
from ledgers.protocol.ledger_effects import AppendEffect, ChangeRecord, Recovered, RecoveryEffect
from ledgers.protocol.ledger_recovery import Recovery, Stage
from ledgers.protocol.page_read import PageRead
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import BookieRef, LedgerRecord
from tests.simulation.cores.clients.readers import Reader
from tests.simulation.cores.clients.recoverer import Recoverer
from tests.simulation.cores.site import metadata, servers
from tests.simulation.cores.site.metadata import Committed
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


@instead_of(Recovery, "_read_if_fenced")
def does_not_wait_until_enough_are_fenced(self: Recovery) -> list[RecoveryEffect]:
    """R2, F10; safe by itself: recovery's reads fence too (F22)."""
    return self._begin_reading() if self.fencing._fenced and self.stage is Stage.FENCING else []


@around(Recoverer, "_look_at")
def does_not_mark_the_record(look_at: Real, self: Recoverer, found: Committed) -> None:
    """R2; safe by itself: the close compares versions (F22)."""
    record = found.record
    look_at(self, replace(found, record=record if record.is_closed else _as_marked(record)))


def _as_marked(record: LedgerRecord) -> LedgerRecord:
    return record.in_recovery() if record.state == "open" else record


@around(servers.SimulatedBookie, "read", within=2000, known=54)
def reads_without_fencing(read: Real, self: servers.SimulatedBookie, request: Any, answer: Any) -> Any:
    """R3, F1"""
    return read(self, replace(request, fence=False), answer)


@instead_of(FencedReads, "failed", within=500, known=46)
def takes_silence_for_absence(self: FencedReads, position: int, why: str) -> None:
    """R3, F12"""
    self.replicas[position].reading = False
    self.replicas[position].covered_through = self.replicas[position].asked_from


@around(FencedReads, "answered", within=3000, known=541)
def takes_an_io_error_for_absence(answered: Real, self: FencedReads, position: int, reply: ReadReply) -> None:
    """R3, R6, F11"""
    if reply.status is Status.IO_ERROR:
        covered = self.replicas[position].asked_from
        reply = ReadReply(Status.NO_SUCH_LEDGER, covered_through=covered)
    answered(self, position, reply)


@instead_of(Replica, "lacks", within=1000, known=46)
def takes_damage_for_absence(self: Replica, entry_id: int) -> bool:
    """R3, R6, F11"""
    return entry_id <= self.covered_through and entry_id not in self.entries


@around(FencedReads, "verdict", within=200, known=9)
def one_absence_is_enough(verdict: Real, self: FencedReads, entry_id: int) -> Any:
    """R3"""
    striping = Striping(self._striping.shape)
    striping.__dict__["absent_quorums"] = tuple(replace(q, needed=1) for q in striping.absent_quorums)
    kept, self._striping = self._striping, striping
    try:
        return verdict(self, entry_id)
    finally:
        self._striping = kept


@around(FencedReads, "answered", within=2000, known=78)
def puts_back_what_it_has_not_verified(
    answered: Real, self: FencedReads, position: int, reply: ReadReply
) -> None:
    """R3: a copy with a wrong digest is a copy."""
    verified, self._digester = self._digester, _Trusting(7)
    try:
        answered(self, position, reply)
    finally:
        self._digester = verified


class _Trusting(Crc32cDigester):
    def bad_entries(self, columns: Columns) -> list[int]:
        return []


@around(Recovery, "_begin_reading", within=500, known=141)
def starts_before_the_last_fragment(begin: Real, self: Recovery) -> Any:
    """R3, F2"""
    self._last_fragment = replace(self._last_fragment, first_entry=0, length_before=0)
    return begin(self)


@instead_of(Recovery, "_close_if_written_back", within=20, known=4)
def does_not_wait_for_what_is_written_back(self: Recovery) -> list[RecoveryEffect]:
    """R4"""
    pipeline, last = self.pipeline, self._last_entry
    assert pipeline is not None and last is not None
    if self.stage is not Stage.READING:
        return []
    self.stage = Stage.CLOSING
    return [ChangeRecord(pipeline.record.closed(last, pipeline.confirmed_length))]


@around(Recovery, "_read_more", within=4000, known=1754)
def reads_from_the_changed_ensemble(read_more: Real, self: Recovery) -> Any:
    """R4, F4"""
    assert self.pipeline is not None
    self._last_fragment = self.pipeline.record.fragments[-1]
    for replica in self._reads.replicas if self._reads else ():
        replica.failure = ""
    return read_more(self)


@bug(within=50, known=18)
def publishes_its_ensemble_before_it_closes(patch: Patch) -> None:
    """R4, F3"""
    propose = AppendPipeline._propose

    def broken(self: AppendPipeline, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        effects = propose(self, new)
        return [ChangeRecord(self.record), *effects] if self._recovery else effects

    patch.setattr(AppendPipeline, "_propose", broken)
    changed = Recovery.changed

    def goes_on(self: Recovery, record: LedgerRecord) -> list[RecoveryEffect]:
        return changed(self, record) if self.stage is Stage.CLOSING else []

    patch.setattr(Recovery, "changed", goes_on)


@instead_of(Recoverer, "lac_statement", within=100, known=6)
def recovery_tells_an_advancing_lac(self: Recoverer) -> Any:
    """R4, F5"""
    recovery = self.machine()
    pipeline = recovery.pipeline
    if pipeline is None or pipeline.last_add_confirmed < 0:
        return None
    return recovery._digester.sign_lac(pipeline.last_add_confirmed, pipeline.confirmed_length)


@instead_of(Recovery, "conflicted", within=500, known=56)
def keeps_to_its_end_when_another_was_faster(
    self: Recovery, found: LedgerRecord | None
) -> list[RecoveryEffect]:
    """R5, F18"""
    pipeline, last = self.pipeline, self._last_entry
    assert pipeline is not None and last is not None
    return self._end(Recovered(pipeline.record.closed(last, pipeline.confirmed_length)))


@around(metadata.SimulatedMetadata, "_swap", within=50, known=9)
def closes_without_comparing_versions(
    swap: Real, self: metadata.SimulatedMetadata, record: LedgerRecord, version: int
) -> Any:
    """R5, M1, F18"""
    stands = self.stands.version if self.stands is not None else version
    return swap(self, record, stands if record.is_closed else version)


@around(metadata.SimulatedMetadata, "_settled", within=100, known=4)
def takes_another_change_for_its_own(
    settled: Real, self: metadata.SimulatedMetadata, mine: LedgerRecord, read: Any
) -> Any:
    """M1, F17: a compare-and-swap that failed is settled without looking whose change stands."""
    outcome = settled(self, mine, read)
    if isinstance(outcome, metadata.Lost) and outcome.found is not None:
        return Committed(mine, outcome.found.version)
    return outcome


@instead_of(PageRead, "_verified", within=1000, known=11)
def reads_pages_without_checking_digests(self: PageRead, position: Any, columns: Any) -> Any:
    """P4"""
    return columns


@around(Reader, "_note_lac", within=2000, known=112)
def reads_past_what_is_confirmed(note: Real, self: Reader, reply: Any) -> Any:
    """P5: a tail reader believes in one entry more than it was told."""
    before = self._lac
    noted = note(self, reply)
    self._lac += self._lac > before and not self.record.is_closed
    return noted
