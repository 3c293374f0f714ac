"""Sets of logs: a stable hash spreads keys over the logs, whose number grows only by an explicit call."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.errors import KeyExists
from metadata.records.logs.log_record import LogSettings
from metadata.records.logs.log_set_record import (
    LogSetRecord,
    LogSetStore,
    VersionedLogSet,
    log_name,
)
from metadata.records.logs.retention import NOTHING_GOES, Retention, retention_to_dict

from ...cluster import Cluster
from ...elections.term import Term
from ...errors import LedgerError, LogExists, LogFenced, NoSuchLog
from ...record_change import metadata_errors
from ..errors import NoSuchLogSet
from ..log import Log
from ..log_access import check_may_change, check_may_give_up
from ..log_calls import LogCalls
from .set_consumption import GroupOptions, SetConsumption, SetRecord
from .set_state import LogSetState
from .set_writer import LogSetWriter

log = logging.getLogger(__name__)

TAKE_OVERS_MAX = 10
"""Maximum number of attempts to take a set over; another attempt is made only if the set has grown."""

GROWTH_TAKE_OVERS_MAX = 100
"""Maximum number of attempts to take one log over when a set grows; another attempt is made only after a take-over by a
writer, or by another client that completes the expansion."""


class LogSet:
    """An opened set of logs. Made by `LedgerClient.log_set`; belongs to its event loop.

    Log n of a set is the log `<set>.<n>`. It can be read and truncated like any other log; its name, retention and
    legal hold are those of the set. All records of a key are in one log, in the order in which they were appended;
    after the set has grown, later records of a key may be in another log. Every call may raise MetadataUnavailable,
    and raises NoSuchLogSet once the set is deleted, even if another set has taken its name.
    """

    def __init__(
        self, cluster: Cluster, calls: LogCalls, name: str, found: VersionedLogSet, password: bytes
    ) -> None:
        self._cluster = cluster
        self._calls = calls
        self._state = LogSetState(LogSetStore(cluster.store), name, found)
        self._password = password
        self.name = name
        """The set's name."""

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
        """Opens a set. If the set does not exist and a number of logs is given, creates it. Raises LogExists if a log
        outside the set has the name of one of its logs; in that case nothing is created."""
        store = LogSetStore(cluster.store)
        with metadata_errors():
            found = await store.read(keys.check_name(name))
        is_deleted = found is not None and found.record.deleted
        if logs is None and (found is None or is_deleted):
            raise NoSuchLogSet(name)
        if is_deleted:
            raise LedgerError(f"set {name!r} is only partly deleted: delete it again, then create it")
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
                    # otherwise another client has created the set in the meantime
        if found is None:  # the set was deleted right after it was created
            raise NoSuchLogSet(name)
        opened = cls(cluster, calls, name, found, password)
        if found.record.is_unsettled and not cluster.why_not_created():
            await opened._settled()
        return opened

    @property
    def record(self) -> LogSetRecord:
        """The set's metadata, as last read or written."""
        return self._state.record

    async def refresh(self) -> LogSetRecord:
        """Reads the metadata again and returns it. Raises NoSuchLogSet, MetadataUnavailable."""
        self._cluster.check_process()
        return await self._state.refresh()

    async def log(self, number: int) -> Log:
        """Opens the log with this number. Raises NoSuchLog, NotAllowed for a log of another owner."""
        log = await self._calls.open(log_name(self.name, number), self._password)
        if not log.record.is_of(self.record.model.identity):
            raise NoSuchLog(log.name)
        return log

    async def writer(self, name: str | None = None, *, term: Term | None = None) -> LogSetWriter:
        """Takes over all logs of the set, each as `Log.writer` does; only one program writes to a set at a time.

        If a `term` is given, each log from then on refuses leaders of earlier terms of the same election. Completes an
        interrupted expansion. The writer gets LogFenced once another writer has taken a log over, or the set grows;
        call `writer` again for a new one. Raises LogFenced, LeadershipLost if the term is over, LedgerRecoveryFailed,
        NotEnoughBookies, Unauthorized, NotAllowed, and LedgerError if the set keeps growing.
        """
        for _ in range(TAKE_OVERS_MAX):
            record = await self._settled()
            writer = LogSetWriter()
            try:
                for n in range(record.logs):
                    writer.writers.append(await (await self.log(n)).writer(name, term=term))
                # A client that grows the set changes the record before it fences writers: either the changed record
                # is seen below, or that client fences this writer.
                if await self.refresh() == record:
                    return writer
            except BaseException:
                await writer.abandon()
                raise
            with suppress(LogFenced):  # another client that grows the set has fenced the writer
                await writer.close()
        raise LedgerError(f"set {self.name!r} keeps growing; try again")

    async def grow(self, logs: int) -> None:
        """Spreads keys over this number of logs from now on. The number must be a multiple of the current one. The
        writer gets LogFenced.

        If the call is interrupted, the next writer or a repeated call completes the expansion. Raises ValueError for
        any other number, LogExists if a log outside the set has the name of a new log (in that case the set has not
        grown), and the errors of `writer`.
        """
        log_name(self.name, logs - 1)  # raises if the longest name would be too long
        record = await self._settled()
        await _check_names(self._calls, record, record.logs, logs)
        await self._state.change(lambda now: now if now.logs == logs else now.to_grow(logs))
        await self._settled()

    def consume(self, group: str, **options: Unpack[GroupOptions]) -> AsyncGenerator[SetRecord, None]:
        """Yields records of the logs that this member of the group holds, each at least once, and commits the used
        ones.

        The members of a group share the logs, using the cursors with the group's name. The records of each key are
        yielded in order, whichever member holds their log. A record counts as used when the caller asks for the next
        one.

        Options: `timeout` ends the iteration when no new record has arrived for this many seconds; without it, the
        iteration never ends. If, at a member's timeout, the group has unread records in a log and its cursor in that
        log does not move, the member waits for up to `lease_seconds` plus five seconds longer, because the member that
        held the log may have died. `start` is where the cursors of a new group begin, "beginning" by default; logs that
        are added to the set later are used from their beginning. `commit_seconds` (1), `lease_seconds` (10) and
        `poll_seconds_max` (300; None for no limit) are as for `Log.consume`. `on_truncated` determines what happens if
        records at the cursor's position in a log were truncated: with "oldest", the member continues at the oldest
        remaining record; with "raise" (the default), it uses its other logs, and raises LogTruncated once no new record
        has arrived for the timeout, or for a minute if there is no timeout. `member` is a human-readable label, by
        default host and process.

        Raises NoSuchLogSet once the set is deleted, and the errors of `Log.consume`.
        """
        return self.consumption(group, **options).records()

    def consumption(self, group: str, **options: Unpack[GroupOptions]) -> SetConsumption:
        """Does the same as `consume`, for callers that read the records in batches."""
        self._cluster.check_process()
        return SetConsumption(self._cluster, self, group, **options)

    @property
    def retention(self) -> Retention:
        """The rules by which old records of each log are deleted automatically, as last read or written."""
        return self.record.model.retention

    async def set_retention(self, retention: Retention) -> None:
        """Sets the retention of all logs, including logs that are added to the set later. Raises the errors of
        `Log.set_retention`.

        If the call is interrupted, the change is completed by a repeated call, the next writer, or the next client that
        opens the set.
        """
        for n in range((await self._settled()).logs):
            await check_may_give_up(self._cluster, (await self.log(n)).record, self._password)
        await self._want(retention=retention)
        record_audit(Act.RETENTION, who=self._cluster.who, log_set=self.name, **retention_to_dict(retention))

    async def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold on all logs, including logs that are added to the set later. Raises the errors of
        `Log.set_legal_hold`.

        If the call is interrupted, the change is completed in the same way as one by `set_retention`; until then, it
        applies to only some of the logs.
        """
        check_may_change(self._cluster)
        await self._want(legal_hold=is_held)
        record_audit(Act.LEGAL_HOLD, who=self._cluster.who, log_set=self.name, is_held=is_held)

    # ------------------------------------------------------------------------------------------------

    async def _want(self, **changed: Any) -> None:
        await self.refresh()
        await self._state.change(lambda record: record.wanting(replace(record.model, **changed)))
        await self._settled()

    async def _settled(self) -> LogSetRecord:
        """Returns the record once all logs exist and have the wanted settings, and no expansion remains to be
        completed."""
        record = await self.refresh()
        for _ in range(TAKE_OVERS_MAX):
            if not (record.growing_to or record.is_unsettled):
                return record
            await self._settle_logs(record)
            ends = [await self._end(n) for n in range(record.logs)] if record.growing_to else []
            record = await self._state.change(_settled_from(record, tuple(ends)))
        raise LedgerError(f"set {self.name!r} keeps changing; try again")

    async def _settle_logs(self, record: LogSetRecord) -> None:
        """Creates or adjusts the logs. The set's record lists them before they are created, so that a deletion of the
        set finds them."""
        for n in range(max(record.logs, record.growing_to)):
            await self.refresh()  # raises if the set was deleted in the meantime
            await self._calls.settle(record.model, record.member(n), self._password)

    async def _end(self, number: int) -> int:
        """Returns the end of a log, after fencing its writer."""
        for _ in range(GROWTH_TAKE_OVERS_MAX):
            try:
                writer = await (await self.log(number)).writer("growth of the set")
            except LogFenced:  # fenced by a writer unaware of the expansion, or by a client completing it
                continue
            with suppress(LogFenced):
                await writer.close()
            return writer.next_position
        raise LedgerError(f"log {number} of set {self.name!r} keeps being taken over; try again")


async def _check_names(calls: LogCalls, record: LogSetRecord, start: int, stop: int) -> None:
    """Raises LogExists, before anything is changed, if a log outside the set has the name of one that is to be
    created."""
    for n in range(start, stop):
        await calls.check_name(log_name(record.model.name, n), record.model.identity)


def _settled_from(before: LogSetRecord, ends: tuple[int, ...]) -> Callable[[LogSetRecord], LogSetRecord]:
    """Returns a transition that completes an expansion; it changes nothing if another client has since changed the
    set."""

    def settled(record: LogSetRecord) -> LogSetRecord:
        if record != before:
            return record
        return record.grown(ends) if record.growing_to else record.settled()

    return settled
