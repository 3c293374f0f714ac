"""Bugs planted in what forks share, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bookledger.cluster.rebuilding import record_repair
from ledgers.logs import log_calls
from ledgers.logs.forks.forking import Forking
from ledgers.logs.log_reader import LogSegmentReader
from metadata.records.ledger_store import VersionedRecord
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment import POSITION_MAX
from metadata.records.logs.segment_deletion import Cleaner, UnneededSegments
from metadata.records.logs.shared_ledgers import Fork, Maker
from tests.simulation.engine.planted import Real, around, bug, instead_of


@instead_of(LogRecord, "is_forked", within=1000, known=11)
def a_log_does_not_keep_what_its_forks_need(self: LogRecord, start: int, stop: int | None) -> bool:
    return False


@instead_of(Forking, "_register", within=1000, known=36)
async def a_fork_tells_nobody_what_it_needs(self: Forking, record: LogRecord) -> None:
    """It shares all the same."""


@bug(within=1000, known=275)
def a_fork_shares_before_it_is_named(patch: pytest.MonkeyPatch) -> None:
    """What it shares may be given up in between."""
    register, segments = Forking._register, Forking._segments

    async def later(self: Forking, start: int) -> Any:
        found = await segments(self, start)
        await register(self, self._chain.record)
        return found

    async def nothing(self: Forking, record: LogRecord) -> None:
        pass

    async def name(self: Forking, fork: Any, found: VersionedLog) -> None:
        await self._logs.change(found.record.with_fork(fork), found.version)

    patch.setattr(Forking, "_register", nothing)
    patch.setattr(Forking, "_segments", later)
    patch.setattr(Forking, "_name", name)


@bug(within=1000, known=36)
def a_fork_reads_what_was_appended_to_its_log_since(patch: pytest.MonkeyPatch) -> None:
    def end(self: LogSegmentReader) -> int:
        return self.segment.first_position + self._reader.last_add_confirmed + 1

    patch.setattr(LogSegmentReader, "end", property(end))


@around(LogRecord, "released", within=1000, known=36)
def a_fork_that_gives_something_up_gives_everything_up(
    released: Real, self: LogRecord, identity: bytes, start: int
) -> LogRecord:
    found: LogRecord = released(self, identity, POSITION_MAX)
    return found


@instead_of(LogRecord, "released", within=1000, known=11)
def a_fork_never_gives_anything_up(self: LogRecord, identity: bytes, start: int) -> LogRecord:
    return self


@around(log_calls, "new_fork", within=1000, known=168)
def a_fork_of_a_fork_counts_for_that_only(
    made: Real, cluster: Any, record: LogRecord, name: str, at: int
) -> LogRecord:
    fork: LogRecord = made(cluster, record, name, at)
    return replace(fork, makers=(Maker(record.identity, at),) if fork.makers else ())


@instead_of(Cleaner, "_delete_shared", within=1000, known=27)
async def a_fork_deletes_what_others_need(
    self: Cleaner, found: VersionedRecord, said: SegmentOf, log: LogRecord
) -> bool:
    await self._ledgers.delete(found)
    return True


@instead_of(Cleaner, "_end", within=1000, known=11)
async def the_record_of_a_deleted_log_does_not_stay_for_its_forks(self: Cleaner, found: VersionedLog) -> None:
    await self._logs.forget(found)


@instead_of(record_repair, "find_unnamed_forks", within=1000, known=806)
async def accepting_older_metadata_forgets_the_forks_of_a_log(
    logs: LogStore, identity: bytes, forks: Sequence[Fork]
) -> None:
    """Which have its ledgers all the same."""


@around(record_repair, "forks_of", within=1000, known=806)
def a_fork_is_named_with_less_than_it_needs(
    named: Real, logs: Sequence[LogRecord]
) -> dict[bytes, tuple[Fork, ...]]:
    found: dict[bytes, tuple[Fork, ...]] = named(logs)
    return {maker: tuple(replace(one, start=one.stop - 1) for one in forks) for maker, forks in found.items()}


@around(UnneededSegments, "_is_needed", within=1000, known=36)
async def an_audit_asks_only_the_log_that_made_a_ledger(
    needed: Real, self: UnneededSegments, of: LogRecord, ledger: Any, said: SegmentOf
) -> Any:
    return await needed(self, replace(of, forks=()), ledger, said)
