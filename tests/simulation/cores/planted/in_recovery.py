"""Rules of recovery and of readers broken on purpose; see `planted`. Each docstring names what the plant is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bookie.wire import Columns, ReadReply, Status
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.effects import AppendEffect, ChangeRecord, Recovered, RecoveryEffect
from ledgers.protocol.fenced_reads import FencedReads, Replica
from ledgers.protocol.page_read import PageRead
from ledgers.protocol.recovery import Recovery, Stage
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import BookieRef, LedgerRecord
from tests.simulation.cores.clients.recoverer import Recoverer
from tests.simulation.cores.site import metadata, servers
from tests.simulation.cores.site.metadata import Committed

Patch = pytest.MonkeyPatch


def does_not_wait_until_enough_are_fenced(patch: Patch) -> None:
    """R2, F10; safe by itself: recovery's reads fence too (F22)."""

    def broken(self: Recovery) -> list[RecoveryEffect]:
        return self._begin_reading() if self.fencing._fenced and self.stage is Stage.FENCING else []

    patch.setattr(Recovery, "_read_if_fenced", broken)


def does_not_mark_the_record(patch: Patch) -> None:
    """R2; safe by itself: the close compares versions (F22)."""
    look_at = Recoverer._look_at

    def broken(self: Recoverer, found: Committed) -> None:
        record = found.record
        look_at(self, replace(found, record=record if record.is_closed else _as_marked(record)))

    patch.setattr(Recoverer, "_look_at", broken)


def _as_marked(record: LedgerRecord) -> LedgerRecord:
    return record.in_recovery() if record.state == "open" else record


def reads_without_fencing(patch: Patch) -> None:
    """R3, F1"""
    read = servers.SimulatedBookie.read
    patch.setattr(
        servers.SimulatedBookie,
        "read",
        lambda self, request, answer: read(self, replace(request, fence=False), answer),
    )


def takes_silence_for_absence(patch: Patch) -> None:
    """R3, F12"""

    def broken(self: FencedReads, position: int, why: str) -> None:
        self.replicas[position].reading = False
        self.replicas[position].covered_through = self.replicas[position].asked_from

    patch.setattr(FencedReads, "failed", broken)


def takes_an_io_error_for_absence(patch: Patch) -> None:
    """R3, R6, F11"""
    answered = FencedReads.answered

    def broken(self: FencedReads, position: int, reply: ReadReply) -> None:
        if reply.status is Status.IO_ERROR:
            covered = self.replicas[position].asked_from
            reply = ReadReply(Status.NO_SUCH_LEDGER, covered_through=covered)
        answered(self, position, reply)

    patch.setattr(FencedReads, "answered", broken)


def takes_damage_for_absence(patch: Patch) -> None:
    """R3, R6, F11"""

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


def puts_back_what_it_has_not_verified(patch: Patch) -> None:
    """R3: a copy with a wrong digest is a copy."""
    answered = FencedReads.answered

    def broken(self: FencedReads, position: int, reply: ReadReply) -> None:
        verified, self._digester = self._digester, _Trusting(7)
        try:
            answered(self, position, reply)
        finally:
            self._digester = verified

    patch.setattr(FencedReads, "answered", broken)


class _Trusting(Crc32cDigester):
    def bad_entries(self, columns: Columns) -> list[int]:
        return []


def starts_before_the_last_fragment(patch: Patch) -> None:
    """R3, F2"""
    begin = Recovery._begin_reading

    def broken(self: Recovery) -> list[RecoveryEffect]:
        self._last_fragment = replace(self._last_fragment, first_entry=0, length_before=0)
        return begin(self)

    patch.setattr(Recovery, "_begin_reading", broken)


def does_not_wait_for_what_is_written_back(patch: Patch) -> None:
    """R4"""

    def broken(self: Recovery) -> list[RecoveryEffect]:
        pipeline, last = self.pipeline, self._last_entry
        assert pipeline is not None and last is not None
        if self.stage is not Stage.READING:
            return []
        self.stage = Stage.CLOSING
        return [ChangeRecord(pipeline.record.closed(last, pipeline.confirmed_length))]

    patch.setattr(Recovery, "_close_if_written_back", broken)


def reads_from_the_changed_ensemble(patch: Patch) -> None:
    """R4, F4"""
    read_more = Recovery._read_more

    def broken(self: Recovery) -> list[RecoveryEffect]:
        assert self.pipeline is not None
        self._last_fragment = self.pipeline.record.fragments[-1]
        for replica in self._reads.replicas if self._reads else ():
            replica.failure = ""
        return read_more(self)

    patch.setattr(Recovery, "_read_more", broken)


def publishes_its_ensemble_before_it_closes(patch: Patch) -> None:
    """R4, F3"""
    from ledgers.protocol.append import AppendPipeline

    propose = AppendPipeline._propose

    def broken(self: AppendPipeline, new: Mapping[int, BookieRef]) -> list[AppendEffect]:
        effects = propose(self, new)
        return [ChangeRecord(self.record), *effects] if self._recovery else effects

    patch.setattr(AppendPipeline, "_propose", broken)
    changed = Recovery.changed

    def goes_on(self: Recovery, record: LedgerRecord) -> list[RecoveryEffect]:
        return changed(self, record) if self.stage is Stage.CLOSING else []

    patch.setattr(Recovery, "changed", goes_on)


def recovery_tells_an_advancing_lac(patch: Patch) -> None:
    """R4, F5"""

    def broken(self: Recovery) -> Any:
        pipeline = self.pipeline
        if pipeline is None or pipeline.last_add_confirmed < 0:
            return None
        return self._digester.sign_lac(pipeline.last_add_confirmed, pipeline.confirmed_length)

    patch.setattr(Recoverer, "lac_statement", lambda self: broken(self.machine()))


def keeps_to_its_end_when_another_was_faster(patch: Patch) -> None:
    """R5, F18"""

    def broken(self: Recovery, found: LedgerRecord | None) -> list[RecoveryEffect]:
        pipeline, last = self.pipeline, self._last_entry
        assert pipeline is not None and last is not None
        return self._end(Recovered(pipeline.record.closed(last, pipeline.confirmed_length)))

    patch.setattr(Recovery, "conflicted", broken)


def closes_without_comparing_versions(patch: Patch) -> None:
    """R5, M1, F18"""
    swap = metadata.SimulatedMetadata._swap

    def broken(self: metadata.SimulatedMetadata, record: LedgerRecord, version: int) -> bool:
        stands = self.stands.version if self.stands is not None else version
        return swap(self, record, stands if record.is_closed else version)

    patch.setattr(metadata.SimulatedMetadata, "_swap", broken)


def takes_another_change_for_its_own(patch: Patch) -> None:
    """M1, F17: a compare-and-swap that failed is settled without looking whose change stands."""
    settled = metadata.SimulatedMetadata._settled

    def broken(self: metadata.SimulatedMetadata, mine: LedgerRecord, read: Any) -> Any:
        outcome = settled(self, mine, read)
        if isinstance(outcome, metadata.Lost) and outcome.found is not None:
            return Committed(mine, outcome.found.version)
        return outcome

    patch.setattr(metadata.SimulatedMetadata, "_settled", broken)


def reads_pages_without_checking_digests(patch: Patch) -> None:
    """P4"""
    patch.setattr(PageRead, "_verified", lambda self, position, columns: columns)


def reads_past_what_is_confirmed(patch: Patch) -> None:
    """P5: a tail reader believes in one entry more than it was told."""
    from tests.simulation.cores.clients.readers import Reader

    note = Reader._note_lac

    def broken(self: Reader, reply: Any) -> bool:
        before = self._lac
        noted = note(self, reply)
        self._lac += self._lac > before and not self.record.is_closed
        return noted

    patch.setattr(Reader, "_note_lac", broken)
