"""A set of logs: keys are spread over them by a stable hash, and its number of logs grows by an order only."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from metadata import keys
from metadata.audit import Act, tell
from metadata.errors import KeyExists
from metadata.records.logs.log_record import LogSettings
from metadata.records.logs.log_set_record import (
    LogSetRecord,
    LogSetStore,
    VersionedLogSet,
    log_name,
)
from metadata.records.logs.retention import NOTHING_GOES, Retention, told

from ...cluster import Cluster
from ...elections.term import Term
from ...errors import LedgerError, LogExists, LogFenced, NoSuchLog
from ...record_change import metadata_errors
from ..access import check_may_change, check_may_give_up
from ..log import Log
from ..log_calls import LogCalls
from .errors import NoSuchLogSet
from .set_consumption import GroupOptions, SetConsumption, SetRecord
from .set_state import LogSetState
from .set_writer import LogSetWriter

log = logging.getLogger(__name__)

TAKE_OVERS_MAX = 10
"""Attempts to take a set over: before each other one it has grown."""

GROWTH_TAKE_OVERS_MAX = 100
"""Attempts to take one log over when a set grows: before each other one a writer, or who helps, was in between."""


class LogSet:
    """A set of logs, opened. Made by `LedgerClient.log_set`; belongs to its event loop.

    Log n of a set is the log `<set>.<n>`, which can be read and truncated as any other; its name, retention and legal
    hold are the set's. All records of a key are in one log, in the order in which they were appended; after the set has
    grown, in the log before and then in the one since. Every call raises NoSuchLogSet once the set is deleted, also
    where another one has its name by now, and MetadataUnavailable.
    """

    def __init__(
        self, cluster: Cluster, calls: LogCalls, name: str, found: VersionedLogSet, password: bytes
    ) -> None:
        self._cluster = cluster
        self._calls = calls
        self._state = LogSetState(LogSetStore(cluster.store), name, found)
        self._password = password
        self.name = name

    def __repr__(self) -> str:
        return f"<LogSet {self.name!r} of {self.record.logs} logs>"

    @classmethod
    async def opened(
        cls,
        cluster: Cluster,
        calls: LogCalls,
        name: str,
        logs: int | None,
        settings: LogSettings,
        password: bytes,
        retention: Retention = NOTHING_GOES,
    ) -> LogSet:
        """Opens a set; with a number of logs it is created where it is not there. Raises LogExists where
        another log has the name of one of its logs: then nothing is created."""
        store = LogSetStore(cluster.store)
        with metadata_errors():
            found = await store.read(keys.check_name(name))
        is_deleted = found is not None and found.record.deleted
        if logs is None and (found is None or is_deleted):
            raise NoSuchLogSet(name)
        if is_deleted:
            raise LedgerError(f"set {name!r} is deleted in part: delete it again, and then create it")
        if found is None and logs is not None:
            model = await calls.new(name, settings, password, retention)
            record = LogSetRecord(logs, model, is_unsettled=True)
            with metadata_errors():
                try:
                    await _check_names(calls, record, 0, logs)
                    found = await store.create(name, record)
                except (KeyExists, LogExists):
                    found = await store.read(name)
                    if found is None:
                        raise
                    # else somebody else was faster
        if found is None:  # and it was deleted at once
            raise NoSuchLogSet(name)
        opened = cls(cluster, calls, name, found, password)
        if found.record.is_unsettled and not cluster.why_not_created():
            await opened._settled()
        return opened

    @property
    def record(self) -> LogSetRecord:
        """The set's metadata as it was seen last."""
        return self._state.record

    async def refresh(self) -> LogSetRecord:
        """Reads the metadata again. Raises NoSuchLogSet, MetadataUnavailable."""
        self._cluster.check_process()
        return await self._state.refresh()

    async def log(self, number: int) -> Log:
        """One of its logs. Raises NoSuchLog, NotAllowed for one of another owner."""
        log = await self._calls.open(log_name(self.name, number), self._password)
        if not log.record.is_of(self.record.model.identity):
            raise NoSuchLog(log.name)
        return log

    async def writer(self, name: str | None = None, *, term: Term | None = None) -> LogSetWriter:
        """Takes all logs over, as `Log.writer` does one: one program writes to a set at a time.

        With a `term`, each log refuses a leader of an earlier term of the same election from then on.

        It gets LogFenced once another one has taken a log over, or the set grows: then `writer` makes another one.
        Completes a growth that was interrupted. Raises as `Log.writer`.
        """
        for _ in range(TAKE_OVERS_MAX):
            record = await self._settled()
            writer = LogSetWriter()
            try:
                for n in range(record.logs):
                    writer.writers.append(await (await self.log(n)).writer(name, term=term))
                # Whoever has it grow fences writers after the record says so: this one was not, or sees it now.
                if await self.refresh() == record:
                    return writer
            except BaseException:
                await writer.abandon()
                raise
            with suppress(LogFenced):  # by whoever has it grow
                await writer.close()
        raise LedgerError(f"set {self.name!r} keeps growing; try again")

    async def grow(self, logs: int) -> None:
        """Spreads keys over so many logs from now on, a multiple of those that there are. Its writer gets LogFenced.

        Interrupted, it is completed by the next writer, or by the same order. Raises as `writer`, ValueError; LogExists
        where another log has the name of a new one, and then the set has not grown.
        """
        log_name(self.name, logs - 1)  # raises where it would be too long
        record = await self._settled()
        await _check_names(self._calls, record, record.logs, logs)
        await self._state.change(lambda now: now if now.logs == logs else now.to_grow(logs))
        await self._settled()

    def consume(self, group: str, **options: Unpack[GroupOptions]) -> AsyncGenerator[SetRecord, None]:
        """Yields records of the logs that this member of the group has, each at least once, and commits what was used.

        The members of a group share the logs, by their cursors of the group's name. Of each key records come in order,
        whoever has its log. `GroupOptions` describes the rest. Raises as `Log.consume`.
        """
        return self.consumption(group, **options).records()

    def consumption(self, group: str, **options: Unpack[GroupOptions]) -> SetConsumption:
        """The same as `consume`, for callers that take the records in batches."""
        self._cluster.check_process()
        return SetConsumption(self._cluster, self, group, **options)

    @property
    def retention(self) -> Retention:
        """What of each log goes by itself, as it was seen last."""
        return self.record.model.retention

    async def set_retention(self, retention: Retention) -> None:
        """Settles what goes by itself, for all logs, also those that the set gets later. Raises as `Log.set_retention`.

        Interrupted, it is completed by the same order, the next writer, or whoever opens the set.
        """
        for n in range((await self._settled()).logs):
            await check_may_give_up(self._cluster, (await self.log(n)).record, self._password)
        await self._want(retention=retention)
        tell(Act.RETENTION, who=self._cluster.who, log_set=self.name, **told(retention))

    async def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold on all logs, also those that the set gets later. Raises as `Log.set_legal_hold`.

        Interrupted, it is completed likewise; until then some logs are held.
        """
        check_may_change(self._cluster)
        await self._want(legal_hold=is_held)
        tell(Act.LEGAL_HOLD, who=self._cluster.who, log_set=self.name, is_held=is_held)

    # ------------------------------------------------------------------------------------------------

    async def _want(self, **changed: Any) -> None:
        await self.refresh()
        await self._state.change(lambda record: record.wanting(replace(record.model, **changed)))
        await self._settled()

    async def _settled(self) -> LogSetRecord:
        """The record, once all logs are there and have what is wanted, and no growth is left to be completed."""
        record = await self.refresh()
        for _ in range(TAKE_OVERS_MAX):
            if not (record.growing_to or record.is_unsettled):
                return record
            await self._settle_logs(record)
            ends = [await self._end(n) for n in range(record.logs)] if record.growing_to else []
            record = await self._state.change(_settled_from(record, tuple(ends)))
        raise LedgerError(f"set {self.name!r} keeps changing; try again")

    async def _settle_logs(self, record: LogSetRecord) -> None:
        """The record has them before they are made, so that whoever deletes the set finds them."""
        for n in range(max(record.logs, record.growing_to)):
            await self.refresh()  # raises where it was deleted meanwhile
            await self._calls.settle(record.model, record.member(n), self._password)

    async def _end(self, number: int) -> int:
        """Where a log stands, once its writer is fenced."""
        for _ in range(GROWTH_TAKE_OVERS_MAX):
            try:
                writer = await (await self.log(number)).writer("growth of the set")
            except LogFenced:  # by a writer that looks only then whether the set grows, or by who helps
                continue
            with suppress(LogFenced):
                await writer.close()
            return writer.next_position
        raise LedgerError(f"log {number} of set {self.name!r} keeps being taken over; try again")


async def _check_names(calls: LogCalls, record: LogSetRecord, start: int, stop: int) -> None:
    """Raises LogExists, before anything is changed, where another log has the name of one that is to be made."""
    for n in range(start, stop):
        await calls.check_name(log_name(record.model.name, n), record.model.identity)


def _settled_from(before: LogSetRecord, ends: tuple[int, ...]) -> Callable[[LogSetRecord], LogSetRecord]:
    """Where somebody else has changed the set meanwhile, nothing is changed."""

    def settled(record: LogSetRecord) -> LogSetRecord:
        if record != before:
            return record
        return record.grown(ends) if record.growing_to else record.settled()

    return settled
