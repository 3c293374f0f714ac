"""Creates, opens, lists, renames and deletes logs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from weakref import WeakSet

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.backup import hold
from metadata.records.ledger_record import IDENTITY_BYTES, is_of
from metadata.records.logs.log_record import LogRecord, LogSettings, SetMember
from metadata.records.logs.log_set_record import log_name
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.retention import NOTHING_GOES, Retention

from ..cluster import Cluster
from ..creating.new_ledger import NewLedger
from ..errors import LedgerError, LogExists, LogHeld, NoSuchLog, NotAllowed
from ..record_change import metadata_errors, missing_log_error
from ..writing.base_writer import close_writers
from .cleaning import Cleaning, delete_all, release
from .errors import LogIncomplete
from .forks.forking import Forking, new_fork
from .forks.log_restoration import Restoration, Restoring, successor_of
from .known_end import KnownEnds
from .log import Log
from .log_access import check_may_change, check_may_give_up, check_no_member
from .log_chain import LogChain, Transition, check_not_restored
from .log_segment_ledgers import LogSegmentLedgers, SegmentLedgerClient
from .writing.log_writer import LogWriter

STALE_MS = 86_400_000
"""The age, in milliseconds, at which an unfinished restoration counts as abandoned."""


class LogCalls:
    """One client's operations on its logs."""

    def __init__(self, cluster: Cluster, calls: SegmentLedgerClient) -> None:
        self._cluster = cluster
        self._logs = LogStore(cluster.store)
        self._calls = calls
        self._cleaning = Cleaning()
        self._ends = KnownEnds()
        self._writers: WeakSet[LogWriter] = WeakSet()

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    async def create(
        self, name: str, settings: LogSettings, password: bytes, retention: Retention = NOTHING_GOES
    ) -> Log:
        """Creates a log. Raises LogExists, NotAllowed, ValueError for an unusable name or settings."""
        record = await self.new(name, settings, password, retention)
        if await self._found(name) is not None:
            raise LogExists(name)
        return self._log(await self._made(record), password)

    async def new(self, name: str, settings: LogSettings, password: bytes, retention: Retention) -> LogRecord:
        """Returns a record with a new identity for a log that this client may create. Raises the errors of `create`."""
        keys.check_name(name)
        # raises ValueError for settings that a ledger cannot have
        NewLedger(ensemble_size=settings.shape.ensemble_size, digest=settings.digest_type, password=password)
        check_may_change(self._cluster)
        with metadata_errors():
            await hold.check_accepted(self._cluster.store)
        return LogRecord(
            self._cluster.rng.randbytes(IDENTITY_BYTES),
            name,
            settings,
            owner=self._cluster.owner,
            created_ms=time.time_ns() // 1_000_000,
            retention=retention,
        )

    async def check_name(self, name: str, log_set: bytes) -> VersionedLog | None:
        """Returns the log that has this name if it belongs to the set; None if the name is free. Raises LogExists for
        any other log of this name."""
        found = await self._found(name)
        if found is not None and not found.record.is_of(log_set):
            raise LogExists(name)
        return found

    async def settle(self, model: LogRecord, member: SetMember, password: bytes) -> None:
        """Creates a log of a set, or applies the set's settings to it. Raises LogExists if a log outside the set
        already has the name."""
        name = log_name(model.name, member.number)
        found = await self.check_name(name, member.log_set)
        if found is None:
            made = await self.new(name, model.settings, password, model.retention)
            record = replace(made, owner=model.owner, legal_hold=model.legal_hold, member=member)
            try:
                found = await self._made(record)
            except LogExists:  # another client may be creating the same set
                found = await self.check_name(name, member.log_set)
                if found is None:
                    raise
        await LogChain(self._logs, found).change(lambda record: record.as_its_set(model, member))

    async def open(self, name: str, password: bytes) -> Log:
        """Opens a log. Raises NoSuchLog, NotAllowed for a log of another owner."""
        return self._log(await self._known(name), password)

    async def list(self) -> AsyncIterator[tuple[str, LogRecord]]:
        """Yields all logs that the client may use, with their names, ordered by name."""
        with metadata_errors():
            async for found in self._logs.by_name():
                if not self._why_not(found.record):
                    yield found.record.name, found.record

    async def rename(self, name: str, new_name: str) -> None:
        """Renames a log by one compare-and-swap of its record: before the swap, the log has its old name; after it, the
        old name is free.

        The new name refers to the log even before the swap, so that no other log can take it in between. If the call is
        interrupted, the log keeps its old name, and any log can take the new one. Writers and readers continue. Raises
        NoSuchLog, LogExists, LogOfSet.
        """
        keys.check_name(new_name)
        found = await self._known(name)
        check_may_change(self._cluster)
        await check_no_member(self._cluster, found.record, "it cannot be renamed")
        if name == new_name:
            return
        chain = LogChain(self._logs, found)
        await chain.change(_of(name, lambda record: record.to_be_named(new_name)))
        with metadata_errors():
            if not await self._logs.give_name(new_name, found.record.identity):
                raise LogExists(new_name)

        def renamed(record: LogRecord) -> LogRecord:
            if record.next_name != new_name:
                raise LogExists(new_name)  # another client has begun to rename the log to a different name
            return record.named()

        await chain.change(_of(name, renamed))
        with metadata_errors():
            await self._logs.take_name(name, found.record.identity)
        record_audit(Act.RENAME, who=self._cluster.who, log=name, to=new_name)

    async def delete(self, name: str, password: bytes, *, of: bytes | None = None) -> None:
        """Deletes a log with everything in it. Fences its writer. Raises NoSuchLog and the errors of
        `check_may_delete`.

        If the call is interrupted, repeat it: the log is already marked as deleted, and can be neither read nor
        written. `of`: the set that is being deleted; a log that is not in this set counts as missing.
        """
        found = await self.check_may_delete(name, password, of=of)
        if found is None:
            with metadata_errors():
                raise await missing_log_error(self._cluster.store, name)
        ledgers = LogSegmentLedgers(self._cluster, self._calls, password)
        if not found.record.deleted:
            chain = LogChain(self._logs, found)
            await chain.change(_given_up)
            found = chain.found
        await delete_all(self._logs, found, ledgers)
        with metadata_errors():
            await self._logs.take_name(name, found.record.identity)
        record_audit(Act.DELETE, who=self._cluster.who, log=name)

    async def check_may_delete(
        self, name: str, password: bytes, *, of: bytes | None = None
    ) -> VersionedLog | None:
        """Returns the log of this name, even if it is partly deleted; None if there is none. Raises LogHeld,
        Unauthorized, NotAllowed or LogOfSet if deleting the log would raise that error."""
        found = await self._found(name, deleted_too=True)
        if found is not None and of is not None and not found.record.is_of(of):
            return None
        if found is not None:
            if of is None:
                await check_no_member(
                    self._cluster, found.record, "`delete_log_set` deletes all logs of the set"
                )
            self._check_owner(found.record)
            await check_may_give_up(self._cluster, found.record, password)
            _given_up(found.record)
        return found

    async def fork(self, chain: LogChain, ledgers: LogSegmentLedgers, name: str, at: int) -> Log:
        """Creates a log that shares the records before a confirmed position. Raises LogExists, LogTruncated,
        NotAllowed."""
        record = new_fork(self._cluster, await chain.refresh(), keys.check_name(name), at)
        if await self._found(name) is not None:
            raise LogExists(name)
        made = await self._made(record)
        async with self._given_back(made, ledgers, unless_named=False):
            return self._log(await Forking(chain, made, ledgers, at).complete(), ledgers.password)

    async def restore(self, chain: LogChain, ledgers: LogSegmentLedgers, plan: Restoration) -> None:
        """Restores a log to a confirmed position. Raises LogExists if another log has the former name, LogFenced if
        writers repeatedly take the log over, LogRestored for a former log, NotAllowed."""
        record = check_not_restored(await chain.refresh())
        await self._delete_stale(record, ledgers)
        fork = successor_of(record, new_fork(self._cluster, record, record.name, plan.position))
        with metadata_errors():
            made = await self._logs.create(fork)
        async with self._given_back(made, ledgers, unless_named=True):
            await Restoring(
                chain, await Forking(chain, made, ledgers, plan.position).complete(), ledgers, plan
            ).succeed()

    @asynccontextmanager
    async def _given_back(
        self, made: VersionedLog, ledgers: LogSegmentLedgers, *, unless_named: bool
    ) -> AsyncIterator[None]:
        """Deletes the fork if the block fails. If the fork cannot be deleted now, the next deletion or restoration of
        the log deletes it."""
        try:
            yield
        except BaseException:
            with suppress(LedgerError):
                if not (unless_named and await self._is_named(made.record)):
                    await self._delete_fork(made, ledgers)
            raise

    async def _is_named(self, record: LogRecord) -> bool:
        with metadata_errors():
            named = await self._logs.named(record.name)
        return named is not None and named.record.identity == record.identity

    async def _delete_fork(self, made: VersionedLog, ledgers: LogSegmentLedgers) -> None:
        fork = LogChain(self._logs, made)
        try:
            await fork.change(_unheld)
        except NoSuchLog:  # another client deleted the fork before its sharing was recorded
            await release(self._logs, made.record.given_up())
        else:
            await delete_all(self._logs, fork.found, ledgers)

    async def _delete_stale(self, of: LogRecord, ledgers: LogSegmentLedgers) -> None:
        """Deletes forks that were meant to take the log's name but whose makers died long ago."""
        oldest_ms = time.time_ns() // 1_000_000 - STALE_MS
        for found in await self._all_forks(of):
            if found.record.name != of.name or found.record.created_ms > oldest_ms:
                continue
            if found.record.deleted:  # the fork is only partly deleted: its record still exists
                await delete_all(self._logs, found, ledgers)
            elif not await self._is_named(found.record):
                await self._delete_fork(found, ledgers)

    async def _all_forks(self, of: LogRecord) -> Sequence[VersionedLog]:
        """Returns the forks of the log, and the forks of each log whose ledgers this log uses: a fork of this log can
        use only ledgers of this log and of those logs."""
        with metadata_errors():
            makers = [await self._logs.read(one.identity) for one in of.makers]
            logs = [of, *(one.record for one in makers if one is not None)]
            forks = dict.fromkeys(fork.identity for log in logs for fork in log.forks)
            read = [await self._logs.read(identity) for identity in forks]
        return [one for one in read if one is not None]

    async def close(self) -> None:
        """Closes open writers and stops background work."""
        await close_writers(self._writers)
        await self._cleaning.close()

    # ------------------------------------------------------------------------------------------------

    async def _made(self, record: LogRecord) -> VersionedLog:
        with metadata_errors():
            made = await self._logs.create(record)
            if not await self._logs.give_name(record.name, record.identity):
                await self._logs.forget(await self._logs.change(made.record.given_up(), made.version))
                raise LogExists(record.name)
        record_audit(Act.CREATE, who=self._cluster.who, log=record.name)
        return made

    def _log(self, found: VersionedLog, password: bytes) -> Log:
        ledgers = LogSegmentLedgers(self._cluster, self._calls, password)
        known = self._ends.of(found.record.identity)
        chain = LogChain(self._logs, found)
        return Log(self._cluster, chain, ledgers, self._cleaning, self._writers, known, self)

    async def _found(self, name: str, *, deleted_too: bool = False) -> VersionedLog | None:
        with metadata_errors():
            found = await self._logs.named(keys.check_name(name))
        return found if found is not None and (deleted_too or not found.record.deleted) else None

    async def _known(self, name: str) -> VersionedLog:
        found = await self._found(name)
        if found is None:
            with metadata_errors():
                raise await missing_log_error(self._cluster.store, name)
        self._check_owner(found.record)
        if found.record.forking:
            raise LogIncomplete(name)
        return found

    def _check_owner(self, record: LogRecord) -> None:
        if why := self._why_not(record):
            record_audit(Act.REFUSED, f"log {record.name}: {why}", who=self._cluster.who)
            raise NotAllowed(why)

    def _why_not(self, record: LogRecord) -> str:
        """Returns the reason why the client may not use the log; an empty string if the client may use it."""
        owner = self._cluster.owner
        if is_of(record.owner.encode(), owner):
            return ""
        return (
            f"log {record.name!r} does not belong to {owner!r}, and {self._cluster.identity} may use only that owner's "
            "logs"
        )


def _of(name: str, transition: Transition) -> Transition:
    """Guards a transition: raises NoSuchLog if the log no longer has this name."""

    def guarded(record: LogRecord) -> LogRecord:
        if record.name != name:
            raise NoSuchLog(name)
        return transition(record)

    return guarded


def _unheld(record: LogRecord) -> LogRecord:
    return replace(record, legal_hold=False).given_up()


def _given_up(record: LogRecord) -> LogRecord:
    if record.legal_hold:
        raise LogHeld(record.name)
    return record.given_up()
