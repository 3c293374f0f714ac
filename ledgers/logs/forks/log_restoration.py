"""Restores a log to an earlier state: a fork takes over the log's name in one step, and the former log is kept (rule
L14)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import VersionedLog

from ...errors import LogExists, LogFenced
from ...record_change import metadata_errors
from ..log_chain import LogChain, check_not_restored
from ..log_segment_ledgers import LogSegmentLedgers

TRIES_MAX = 10
"""Number of times that writers may take the log over, and be fenced, before a restoration fails."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The effect of a restoration, performed or planned."""

    position: int
    """The position after the last record of the restored log."""
    records_less: int
    """The number of records, from `position` on, that only the former log has."""
    former: str
    """The name of the former log."""
    cursors: Mapping[str, int]
    """The names of the cursors that were past `position`, each with its position before the restoration."""


def former_name(name: str) -> str:
    """Returns the default name of the former log."""
    ended = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time_ns() // 1_000_000_000))
    return keys.check_name(f"{name[: keys.NAME_CHARACTERS_MAX - len(ended) - 1]}.{ended}")


def successor_of(record: LogRecord, fork: LogRecord) -> LogRecord:
    """Returns the record of the fork that is to take the log's name, with the log's retention, legal hold and term."""
    return replace(
        fork,
        name=record.name,
        retention=record.retention,
        legal_hold=record.legal_hold,
        election=record.election,
        token=record.token,
    )


async def planned(chain: LogChain, position: int, end: int, former: str) -> Restoration:
    """Returns the effect that a restoration would have."""
    with metadata_errors():
        cursors = CursorStore(chain.logs.store, chain.record.identity)
        behind = {name: one.position async for name, one in cursors.list() if one.position > position}
    return Restoration(position, end - position, former, behind)


class Restoring:
    """Gives the name of a log to a complete fork of that log. Passes every error on to the caller. The log keeps its
    name until `succeed` has returned, or until the log's record has a successor."""

    def __init__(
        self, chain: LogChain, fork: VersionedLog, ledgers: LogSegmentLedgers, plan: Restoration
    ) -> None:
        self._chain = chain
        self._fork = fork.record
        self._ledgers = ledgers
        self._plan = plan

    async def succeed(self) -> None:
        name, logs = self._chain.record.name, self._chain.logs
        await self._copy_cursors()
        for _ in range(TRIES_MAX):
            await self._name_former()
            if await self._succeeded(await self._fenced()):
                break
        else:
            raise LogFenced(name, self._chain.record.writer or "unnamed", self._chain.record.epoch)
        with metadata_errors():
            await logs.give_name(name, self._fork.identity)
        record_audit(
            Act.RESTORE,
            who=self._ledgers.cluster.who,
            log=name,
            to=self._plan.former,
            position=self._plan.position,
        )

    async def _copy_cursors(self) -> None:
        """Copies the log's cursors to the fork; a cursor past the fork's end is moved back to that end."""
        store, position = self._chain.logs.store, self._plan.position
        theirs = CursorStore(store, self._fork.identity)
        with metadata_errors():
            async for name, one in CursorStore(store, self._chain.record.identity).list():
                at = min(one.position, position)
                await theirs.create(name, CursorRecord(at, changed_ms=one.changed_ms))

    async def _fenced(self) -> int:
        """Fences the writer, which confirms nothing more from then on. Returns the new epoch, which has no writer."""
        record = await self._chain.change(
            lambda record: check_not_restored(record).taken_over("a restoration")
        )
        last = record.last
        if last is not None and not last.is_ended:
            ended = await self._ledgers.recover(last)

            def with_end(record: LogRecord) -> LogRecord:
                is_there = record.last is not None and record.last.ledger_id == ended.ledger_id
                return record.ended(ended) if is_there else record

            await self._chain.change(with_end)
        return record.epoch

    async def _name_former(self) -> None:
        """Makes the former log's new name refer to the log even before the log is renamed."""
        former = self._plan.former
        await self._chain.change(lambda record: check_not_restored(record).to_be_named(former))
        with metadata_errors():
            if not await self._chain.logs.give_name(former, self._chain.record.identity):
                raise LogExists(former)

    async def _succeeded(self, epoch: int) -> bool:
        """Replaces the log in one step. Returns False if another writer has taken the log over in the meantime."""

        def step(record: LogRecord) -> LogRecord:
            if record.successor is not None and record.successor.identity == self._fork.identity:
                return record  # an earlier attempt succeeded, but its answer was lost
            check_not_restored(record)
            is_mine = record.epoch == epoch and record.next_name == self._plan.former
            return record.succeeded(self._fork.identity) if is_mine else record

        return (await self._chain.change(step)).successor is not None
