"""Logs: each has a name, positions without gaps, and one writer at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from datetime import datetime
from typing import Protocol, Unpack
from weakref import WeakSet

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.records.coordination.cursor_record import CursorRecord
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.retention import Retention, retention_to_dict
from metadata.records.logs.retention_view import RetentionView, look
from metadata.records.logs.segment import Segment

from ..cluster import Cluster
from ..elections.campaign import this_process
from ..elections.term import Term
from ..entry import check_int, wrong_type
from ..errors import LogHeld
from ..record_change import metadata_errors
from .cleaning import Cleaning
from .cursors.consumption import ConsumeOptions, Consumption
from .cursors.cursor import COMMIT_SECONDS, Cursor
from .cursors.cursor_calls import CursorCalls
from .cursors.lag import Lag, lag_of
from .cursors.start_position import Where, position_of
from .forks.fork_sharing import Sharing, sharing_of
from .forks.log_restoration import Restoration, former_name, planned
from .known_end import KnownEnd
from .log_access import check_may_change, check_may_give_up, check_no_member
from .log_chain import LogChain
from .log_reader import LogReader
from .log_segment_ledgers import LogSegmentLedgers
from .record_batch import Record, RecordBatch
from .writing.log_writer import LogWriter
from .writing.takeover import take_over


class ForkCalls(Protocol):
    """The part of `LogCalls` that makes forks."""

    async def fork(self, chain: LogChain, ledgers: LogSegmentLedgers, name: str, at: int) -> Log: ...

    async def restore(self, chain: LogChain, ledgers: LogSegmentLedgers, plan: Restoration) -> None: ...


class Log:
    """An opened log. Made by `LedgerClient.log` and `create_log`; belongs to its event loop.

    Readers do not fence the writer, and see only confirmed records. Every call raises NoSuchLog once the log is
    deleted, Unauthorized for a wrong password, and MetadataUnavailable.
    """

    def __init__(
        self,
        cluster: Cluster,
        chain: LogChain,
        ledgers: LogSegmentLedgers,
        cleaning: Cleaning,
        writers: WeakSet[LogWriter],
        known: KnownEnd,
        forks: ForkCalls,
    ) -> None:
        self._cluster = cluster
        self._chain = chain
        self._ledgers = ledgers
        self._cleaning = cleaning
        self._writers = writers
        self._known = known
        self._forks = forks
        self._reader = LogReader(chain, ledgers, known)
        self._cursors = CursorCalls(cluster, self, chain.record.identity)

    def __repr__(self) -> str:
        return f"<Log {self.name!r}>"

    @property
    def name(self) -> str:
        """The log's current name, as last read."""
        return self._chain.record.name

    @property
    def record(self) -> LogRecord:
        """The log's metadata, as last read or written."""
        return self._chain.record

    async def refresh(self) -> LogRecord:
        """Reads the metadata again and returns it."""
        self._cluster.check_process()
        return await self._chain.refresh()

    async def writer(self, name: str | None = None, *, term: Term | None = None) -> LogWriter:
        """Takes the log over: fences and closes the segment that the former writer left, and becomes the only writer.

        `name` is a human-readable label; the default is host and process. If a `term` is given, the log from then on
        refuses leaders of earlier terms of the same election: they get LogFenced. Raises LogFenced if another writer
        takes the log over in the meantime or a leader of a later term has already done so, LeadershipLost if the term
        is over, LogRestored for the former log of a restoration, LedgerRecoveryFailed, NotEnoughBookies, NotAllowed.
        """
        self._cluster.check_process()
        if term is not None:
            term.check()
        who = this_process() if name is None else name
        chain = LogChain(self._chain.logs, self._chain.found)
        metrics = self._cluster.log_metrics
        with nullcontext() if metrics is None else metrics.taking_over():
            writer = await take_over(self._cluster, chain, self._ledgers, who, term, known=self._known)
        self._writers.add(writer)
        self._chain.take(chain.found)
        # The former writer may not have deleted all truncated ledgers.
        self._cleaning.start(chain, self._cluster.who)
        return writer

    # --- reading ------------------------------------------------------------------------------------

    async def first_position(self) -> int:
        """Returns the position of the oldest remaining record."""
        return (await self.refresh()).first_position

    async def end(self) -> int:
        """Returns the position after the last record that is known to be confirmed; a reader of new records starts
        there.

        For any one client, this position never goes back, and it covers every record that the client has appended or
        read. It also covers the records of other clients that the bookies know to be confirmed. Records that a writer
        confirmed just before it died are included only after the next take-over (rule L4).
        """
        self._cluster.check_process()
        return await self._reader.end()

    async def read(self, start: int | None = None, stop: int | None = None) -> AsyncGenerator[Record, None]:
        """Yields the confirmed records from `start` up to, but not including, `stop`; by default from the oldest one to
        `end()`.

        Raises LogTruncated if `start` was truncated, NoSuchPosition beyond the end, and ValueError if `stop` is before
        `start`. If no replica has a record, yields all records before that one, then raises EntryUnreadable or
        DigestMismatch.
        """
        async with aclosing(self.batches(start, stop)) as batches:
            async for batch in batches:
                for record in batch.records():
                    yield record

    async def batches(
        self, start: int | None = None, stop: int | None = None
    ) -> AsyncGenerator[RecordBatch, None]:
        """Yields the confirmed records from `start` up to, but not including, `stop`, in columns, a page at a time, for
        bulk work.

        By default reads from the oldest record to `end()`. Raises LogTruncated if `start` was truncated, NoSuchPosition
        beyond the end, and ValueError if `stop` is before `start`. If no replica has a record, yields all records
        before that one, then raises EntryUnreadable or DigestMismatch. `read` yields the same records one by one.
        """
        self._cluster.check_process()
        for position in (start, stop):
            check_int("a position", 0 if position is None else position)
        async with aclosing(self._reader.batches(start, stop)) as batches:
            async for batch in batches:
                self._count_read(batch)
                yield batch

    async def tail(
        self, start: int | None = None, *, timeout: float | None = None
    ) -> AsyncGenerator[Record, None]:
        """Yields records from `start` on as they are confirmed, across new segments and fail-overs of the writer.

        Ends when no new record has arrived for `timeout` seconds; with a `timeout` of 0, checks once and does not wait.
        Raises LogTruncated, LogRestored at the end of a former log, EntryUnreadable or DigestMismatch, in each case
        after yielding all earlier records; a new `tail` may continue from that point. Raises NoSuchPosition for a
        `start` beyond the end, after a second at most.
        """
        async with aclosing(self.tail_batches(start, timeout=timeout)) as batches:
            async for batch in batches:
                for record in batch.records():
                    yield record

    async def tail_batches(
        self, start: int | None = None, *, timeout: float | None = None
    ) -> AsyncGenerator[RecordBatch, None]:
        """Yields records from `start` on as they are confirmed, in columns, a page at a time.

        Ends when no new record has arrived for `timeout` seconds; with a `timeout` of 0, checks once and does not wait.
        Raises LogTruncated, LogRestored at the end of a former log, EntryUnreadable or DigestMismatch, in each case
        after yielding all earlier records; a new `tail_batches` may continue from that point. Raises NoSuchPosition for
        a `start` beyond the end, after a second at most. `tail` yields the same records one by one.
        """
        check_int("a position", 0 if start is None else start)
        if start is not None:
            await self.check_reaches(start)
        async with aclosing(self.tail_committed(start, timeout=timeout)) as batches:
            async for batch in batches:
                yield batch

    async def tail_committed(
        self, start: int | None, *, timeout: float | None
    ) -> AsyncGenerator[RecordBatch, None]:
        """Does the same as `tail_batches`, but starts at a cursor's committed position. The log has certainly reached
        that position, even if the bookies do not know it yet."""
        self._cluster.check_process()
        async with aclosing(self._reader.tail(start, timeout)) as batches:
            async for batch in batches:
                self._count_read(batch)
                yield batch

    def _count_read(self, batch: RecordBatch) -> None:
        if (metrics := self._cluster.log_metrics) is not None:
            metrics.read_records.inc(len(batch.positions))

    async def poll(self, start: int, *, timeout: float, records_max: int = 1000) -> list[Record]:
        """Waits for records from `start` on; returns at most `records_max` of them, or none if `timeout` seconds pass
        first.

        Use this in a loop that does other work between calls. Raises the errors of `tail`, and ValueError for
        `records_max` below 1.
        """
        if records_max < 1:
            raise ValueError(f"records_max must be at least 1, not {records_max}")
        async with aclosing(self.tail_batches(start, timeout=timeout)) as batches:
            async for batch in batches:
                return batch.records()[:records_max]
        return []

    @property
    def known_end(self) -> int:
        """The furthest position that this client knows the log to reach. Reading it does not contact the bookies."""
        return self._known.position

    async def check_reaches(self, position: int) -> None:
        """Raises NoSuchPosition if the log ends before this position.

        Another client may have only just confirmed the position, so this waits up to a second for the bookies to learn
        of it.
        """
        self._cluster.check_process()
        await self._reader.check_reaches(position)

    async def position_at(self, time: datetime) -> int:
        """Returns the position of the first record that was appended at this time or later; the log's end if there is
        none.

        Raises ValueError for a time without a time zone.
        """
        self._cluster.check_process()
        if not isinstance(time, datetime):
            raise wrong_type("a time", "a datetime with a time zone", time)
        if time.tzinfo is None:
            raise ValueError(f"{time} has no time zone: specify one, for example datetime.now(UTC)")
        return await self._reader.position_at(max(0, round(time.timestamp() * 1_000_000)))

    async def segments(self, start: int | None = None) -> AsyncIterator[Segment]:
        """Yields the remaining segments in order, beginning with the one that holds `start`; the last one may be
        open."""
        record = await self.refresh()
        with metadata_errors():
            async for segment in self._chain.logs.segments(record, start or 0):
                yield segment

    # --- cursors ----------------------------------------------------------------------------------------

    async def cursor(
        self,
        name: str,
        *,
        start: Where | None = "beginning",
        commit_seconds: float = COMMIT_SECONDS,
        commits_at_close: bool = True,
    ) -> Cursor:
        """Opens a cursor. If the cursor does not exist, creates it at `start`, where it stays until it is moved.

        `start` is a position, a time, "beginning" or "end"; if it is None, the cursor must exist. Commits are written
        every `commit_seconds` (1 by default), and when the cursor is closed, unless `commits_at_close` is False. Raises
        ValueError for an unusable name, NoSuchPosition, LogTruncated, NoSuchCursor.
        """
        self._cluster.check_process()
        state = await self._cursors.state(name, start)
        return Cursor(
            self._cluster, self, state, commit_seconds=commit_seconds, commits_at_close=commits_at_close
        )

    def consume(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> AsyncGenerator[Record, None]:
        """Yields records from the cursor's position on, each at least once, and commits the used records.

        Only one consumer holds a cursor at a time, by a lease; other consumers wait, and take over at the committed
        position. A record counts as used when the caller asks for the next one. If the cursor does not exist, it is
        created at `start`: a position, a time, "beginning" or "end". If a seek moves the cursor, reading continues at
        its new position.

        Options: `timeout` ends the iteration when no new record has arrived for this many seconds; without it, the
        iteration never ends. `commit_seconds` is the interval between commits, 1 by default; `commits_at_close=False`
        omits the last commit. `lease_seconds` is how long a cursor remains without a consumer after its consumer has
        died, 10 by default. `poll_seconds_max` is how long the caller may spend on one record, 300 by default, None for
        no limit: a consumer that exceeds the limit loses the cursor, and queues up again when it asks for its next
        record. `on_truncated` determines what happens if records at the cursor's position were truncated: "raise"
        LogTruncated (the default), or continue at the "oldest" remaining record. `consumer` is a human-readable label,
        by default host and process.

        Raises the errors of `tail`. After LogTruncated, the cursor stays before the oldest record until a seek moves
        it.
        """
        return self.consumption(name, start=start, **options).records()

    def consumption(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> Consumption:
        """Does the same as `consume`, for callers that read the records in batches."""
        self._cluster.check_process()
        return Consumption(self._cursors, name, start, **options)

    async def lag(self, position: int) -> Lag:
        """Returns how far a reader at this position is behind the end. Raises the errors of reading the record at that
        position."""
        return await lag_of(self, position)

    async def cursors(self) -> AsyncIterator[tuple[str, CursorRecord]]:
        """Yields the name and the metadata of every cursor, ordered by name."""
        async for found in self._cursors.list():
            yield found

    async def delete_cursor(self, name: str) -> None:
        """Deletes a cursor. Raises NoSuchCursor."""
        self._cluster.check_process()
        await self._cursors.delete(name)

    # --- forks ----------------------------------------------------------------------------------------

    async def fork(self, name: str, *, at: Where = "end") -> Log:
        """Creates a log of this name that has the records of this log before `at`, a position or a time; returns the
        new log.

        No record is copied: both logs share the ledgers, and a ledger is deleted when no log needs it any longer (rule
        L13). The fork is written, read, truncated, retained, held and deleted independently of this log, under the same
        password. The fork keeps this log's state of producers; cursors, retention and a legal hold are not copied. If
        the call is interrupted, it may leave a log that can only be deleted.

        Raises LogExists, LogTruncated, NoSuchPosition, NotAllowed, ValueError for an unusable name.
        """
        self._cluster.check_process()
        return await self._forks.fork(self._chain, self._ledgers, name, await position_of(self, at))

    async def restore(self, *, at: Where, former: str = "", dry_run: bool = False) -> Restoration:
        """Restores the log to a position or a time: a fork that ends there takes over the log's name in one step.

        From then on, this handle's log is the former log. It keeps all its records under another name: `former`, or the
        log's name with the time appended. It can no longer be written to: its writer is fenced before the step, and
        gets LogFenced. Tailing readers and consumers of the former log get LogRestored at its end. The restored log has
        the same cursors; those past the position are moved back to it. With `dry_run`, nothing is changed. Open the log
        again to use the restored one.

        Raises the errors of `truncate` except LogHeld, because no record is deleted; LogOfSet for a log of a set,
        LogExists if another log has the former name, LogRestored if this is a former log, LogFenced if writers
        repeatedly take the log over.
        """
        record = await self.refresh()
        await check_no_member(self._cluster, record, "it cannot be restored")
        await check_may_give_up(self._cluster, record, self._ledgers.password)
        position = await position_of(self, at)
        name = keys.check_name(former) if former else former_name(record.name)
        plan = await planned(self._chain, position, await self.end(), name)
        if not dry_run:
            await self._forks.restore(self._chain, self._ledgers, plan)
        return plan

    async def sharing(self) -> Sharing:
        """Reports the logs with which this log shares ledgers, and how many bytes only this log needs."""
        record = await self.refresh()
        with metadata_errors():
            return await sharing_of(self._chain.logs, record)

    # --- deleting records -----------------------------------------------------------------------------

    async def truncate(self, before: int) -> None:
        """Deletes all records before this position. Segments that hold only such records are deleted in the background.

        Truncating to a position that was already truncated is not an error. Raises LogHeld, Unauthorized, NotAllowed,
        and NoSuchPosition beyond the end.
        """
        check_int("a position", before)
        await check_may_give_up(self._cluster, await self.refresh(), self._ledgers.password)
        await self.check_reaches(before)

        def truncated(record: LogRecord) -> LogRecord:
            if record.legal_hold:
                raise LogHeld(record.name)
            return record.truncated(before)

        await self._chain.change(truncated)
        record_audit(Act.TRUNCATE, who=self._cluster.who, log=self.name, position=before)
        self._cleaning.start(self._chain, self._cluster.who)

    @property
    def retention(self) -> Retention:
        """The rules by which old records are deleted automatically, as last read or written."""
        return self.record.retention

    async def set_retention(self, retention: Retention) -> None:
        """Sets the rules by which the elected auditor deletes old records in the background; `Retention()` keeps
        everything.

        Raises Unauthorized or NotAllowed if the client may not truncate the log, LogOfSet for a log of a set.
        """
        await check_no_member(
            self._cluster, self.record, "`LogSet.set_retention` sets the retention of all logs of the set"
        )
        await check_may_give_up(self._cluster, await self.refresh(), self._ledgers.password)
        await self._chain.change(lambda record: record.retained(retention))
        record_audit(Act.RETENTION, who=self._cluster.who, log=self.name, **retention_to_dict(retention))

    async def retained(self) -> RetentionView:
        """Reads, from the metadata, the state of the log that retention depends on. The `judged` method of the result
        states, for a given time, what retention deletes, which segment is next, and why that segment is still kept."""
        record = await self.refresh()
        with metadata_errors():
            return await look(self._chain.logs, record)

    async def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold. During a hold, no record of the log is truncated and no ledger of it is deleted.

        A hold keeps the records that remain when it begins; a ledger that was truncated earlier may still be in the
        process of being deleted. Raises NotAllowed, and LogOfSet for a log of a set.
        """
        await check_no_member(self._cluster, self.record, "`LogSet.set_legal_hold` holds all logs of the set")
        await self.refresh()
        check_may_change(self._cluster)
        await self._chain.change(lambda record: record.held(is_held))
        record_audit(Act.LEGAL_HOLD, who=self._cluster.who, log=self.name, is_held=is_held)
