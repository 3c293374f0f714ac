"""A set of logs: keys are spread over them by a stable hash, and its number of logs grows by an order only."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Unpack

from metadata import keys
from metadata.errors import KeyExists
from metadata.records.coordination.log_set_record import LogSetRecord, LogSetStore, VersionedLogSet
from metadata.records.logs.log_record import LogSettings

from ...cluster import Cluster
from ...errors import LedgerError, LogExists
from ...record_change import metadata_errors
from ..log import Log
from ..log_calls import LogCalls
from .errors import NoSuchLogSet
from .set_consumption import GroupOptions, SetConsumption, SetRecord
from .set_state import LogSetState
from .set_writer import LogSetWriter

log = logging.getLogger(__name__)

TAKE_OVERS_MAX = 10
"""Attempts to take a set over: before each other one it has grown."""


class LogSet:
    """A set of logs, opened. Made by `LedgerClient.log_set`; belongs to its event loop.

    Log n of a set is the log `<set>.<n>`, which can be read, truncated and kept as any other. All records of a key are
    in one log, in the order in which they were appended; after the set has grown, in the log before and then in the one
    since.
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
    ) -> LogSet:
        """Opens a set; with a number of logs it is created where it is not there."""
        store = LogSetStore(cluster.store)
        with metadata_errors():
            found = await store.read(keys.check_name(name))
        is_deleted = found is not None and found.record.deleted
        if logs is None and (found is None or is_deleted):
            raise NoSuchLogSet(name)
        if is_deleted:
            raise LedgerError(f"set {name!r} is deleted in part: delete it again, and then create it")
        if found is None and logs is not None:
            record = LogSetRecord(logs)
            for n in range(logs):
                await _create(calls, log_name(name, n), settings, password)
            with metadata_errors():
                try:
                    found = await store.create(name, record)
                except KeyExists:  # somebody else was faster
                    found = await store.read(name)
        if found is None:  # and it was deleted at once
            raise NoSuchLogSet(name)
        if logs not in (None, found.record.logs, found.record.growing_to):
            raise ValueError(f"set {name!r} has {found.record.logs} logs, not {logs}: `grow` makes them more")
        return cls(cluster, calls, name, found, password)

    @property
    def record(self) -> LogSetRecord:
        """The set's metadata as it was seen last."""
        return self._state.record

    async def refresh(self) -> LogSetRecord:
        """Reads the metadata again. Raises NoSuchLogSet, MetadataUnavailable."""
        self._cluster.check_process()
        return await self._state.refresh()

    async def log(self, number: int) -> Log:
        """One of its logs. Raises NoSuchLog."""
        return await self._calls.open(log_name(self.name, number), self._password)

    async def writer(self, name: str | None = None) -> LogSetWriter:
        """Takes all logs over, as `Log.writer` does one: one program writes to a set at a time.

        It gets LogFenced once another one has taken a log over, or the set grows: then `writer` makes another one.
        Completes a growth that was interrupted. Raises as `Log.writer`.
        """
        for _ in range(TAKE_OVERS_MAX):
            record = await self._settled()
            writer = LogSetWriter()
            try:
                for n in range(record.logs):
                    writer.writers.append(await (await self.log(n)).writer(name))
                # Whoever has it grow fences writers after the record says so: this one was not, or sees it now.
                if await self.refresh() == record:
                    return writer
            except BaseException:
                await writer.abandon()
                raise
            await writer.close()
        raise LedgerError(f"set {self.name!r} keeps growing; try again")

    async def grow(self, logs: int) -> None:
        """Spreads keys over so many logs from now on, a multiple of those that there are. Its writer gets LogFenced.

        Interrupted, it is completed by the next writer, or by the same order. Raises ValueError.
        """
        log_name(self.name, logs - 1)  # raises where it would be too long
        await self.refresh()
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

    # ------------------------------------------------------------------------------------------------

    async def _settled(self) -> LogSetRecord:
        """The record, once no growth is left to be completed."""
        record = await self.refresh()
        while record.growing_to:
            await self._make_logs(record)
            ends = []
            for n in range(record.logs):
                writer = await (await self.log(n)).writer("growth of the set")
                ends.append(writer.next_position)
                await writer.close()
            record = await self._state.change(_grown(record, tuple(ends)))
        return record

    async def _make_logs(self, growing: LogSetRecord) -> None:
        """The record has them before they are made, so that whoever deletes the set finds them."""
        settings = (await self.log(0)).record.settings
        for n in range(growing.logs, growing.growing_to):
            await self.refresh()  # raises where it was deleted meanwhile
            await _create(self._calls, log_name(self.name, n), settings, self._password)


def _grown(before: LogSetRecord, ends: tuple[int, ...]) -> Callable[[LogSetRecord], LogSetRecord]:
    """Where somebody else has completed the same growth, nothing is left to be changed."""
    return lambda record: record.grown(ends) if record == before else record


def log_name(log_set: str, number: int) -> str:
    """The name of a set's log."""
    return keys.check_name(f"{log_set}.{number}")


async def _create(calls: LogCalls, name: str, settings: LogSettings, password: bytes) -> None:
    try:
        await calls.create(name, settings, password)
    except LogExists:  # made by one that was interrupted, or is about to make the same set
        await calls.open(name, password)
