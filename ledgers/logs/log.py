"""A log: a name, positions without holes, one writer after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from datetime import datetime
from typing import Protocol, Unpack
from weakref import WeakSet

from metadata import keys
from metadata.audit import Act, tell
from metadata.records.coordination.cursor_record import CursorRecord
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.retained import Retained, look
from metadata.records.logs.retention import Retention, told
from metadata.records.logs.segment import Segment

from ..cluster import Cluster
from ..elections.campaign import this_process
from ..elections.term import Term
from ..entry import check_int, wrong_type
from ..errors import LogHeld
from ..record_change import metadata_errors
from .access import check_may_change, check_may_give_up, check_no_member
from .cleaning import Cleaning
from .cursors.consumption import ConsumeOptions, Consumption
from .cursors.cursor import COMMIT_SECONDS, Cursor
from .cursors.cursor_calls import CursorCalls
from .cursors.lag import Lag, lag_of
from .cursors.where import Where, position_of
from .forks.restoring import Restoration, former_name, planned
from .forks.sharing import Sharing, sharing_of
from .known_end import KnownEnd
from .log_chain import LogChain
from .reading.log_reader import LogReader
from .record_batch import Record, RecordBatch
from .segment_ledgers import SegmentLedgers
from .writing.log_writer import LogWriter
from .writing.take_over import take_over


class ForkCalls(Protocol):
    """How a client makes forks; see `LogCalls`."""

    async def fork(self, chain: LogChain, ledgers: SegmentLedgers, name: str, at: int) -> Log: ...

    async def restore(self, chain: LogChain, ledgers: SegmentLedgers, plan: Restoration) -> None: ...


class Log:
    """A log, opened. Made by `LedgerClient.log` and `create_log`; belongs to its event loop.

    Readers fence nothing, and see only what is confirmed. Every call raises NoSuchLog once the log is deleted,
    Unauthorized for a wrong password, MetadataUnavailable.
    """

    def __init__(
        self,
        cluster: Cluster,
        chain: LogChain,
        ledgers: SegmentLedgers,
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
        return self._chain.record.name

    @property
    def record(self) -> LogRecord:
        """The log's metadata as it was seen last."""
        return self._chain.record

    async def refresh(self) -> LogRecord:
        """Reads the metadata again."""
        self._cluster.check_process()
        return await self._chain.refresh()

    async def writer(self, name: str | None = None, *, term: Term | None = None) -> LogWriter:
        """Takes the log over: fences and closes what the former writer left, and becomes the one writer.

        `name` is for people; the default is host and process. With a `term`, a leader of an earlier term of the same
        election is refused from then on: it gets LogFenced. Raises LogFenced also where another one takes it over
        meanwhile, LeadershipLost for a term that is over, LedgerRecoveryFailed, NotEnoughBookies, NotAllowed.
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
        self._cleaning.start(chain, self._cluster.who)  # what the former writer had no time for
        return writer

    # --- reading ------------------------------------------------------------------------------------

    async def first_position(self) -> int:
        """The position of the oldest record that is left."""
        return (await self.refresh()).first_position

    async def end(self) -> int:
        """The position behind the last record that is known as confirmed: what a reader of new records starts at.

        It never goes back for a client: it has all that the client has appended or read. Of others' records it has what
        bookies know. What a writer confirmed in its last moment before it died counts only after the next take-over
        (rule L4).
        """
        self._cluster.check_process()
        return await self._reader.end()

    async def read(self, start: int | None = None, stop: int | None = None) -> AsyncGenerator[Record, None]:
        """Yields the confirmed records from `start` to before `stop`; from the oldest and to `end()` by default.

        Raises LogTruncated for what was given up, NoSuchPosition beyond the end, ValueError for a `stop` that is before
        `start`, EntryUnreadable or DigestMismatch when no replica has a record, after yielding all before it.
        """
        async with aclosing(self.batches(start, stop)) as batches:
            async for batch in batches:
                for record in batch.records():
                    yield record

    async def batches(
        self, start: int | None = None, stop: int | None = None
    ) -> AsyncGenerator[RecordBatch, None]:
        """Yields the same records as `read` in columns, a page at a time: for bulk work."""
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
        """Yields records from `start` on as they are confirmed; rolls and fail-overs are not seen.

        Ends once nothing was new for `timeout` seconds; a `timeout` of 0 asks once, and does not wait. Raises as
        `read`; then everything before has been yielded, and a new `tail` may go on there. A `start` beyond the end is
        refused with NoSuchPosition, after a second at most.
        """
        async with aclosing(self.tail_batches(start, timeout=timeout)) as batches:
            async for batch in batches:
                for record in batch.records():
                    yield record

    async def tail_batches(
        self, start: int | None = None, *, timeout: float | None = None
    ) -> AsyncGenerator[RecordBatch, None]:
        """Yields the same records as `tail` in columns, a page at a time."""
        check_int("a position", 0 if start is None else start)
        if start is not None:
            await self.check_reaches(start)
        async with aclosing(self.tail_committed(start, timeout=timeout)) as batches:
            async for batch in batches:
                yield batch

    async def tail_committed(
        self, start: int | None, *, timeout: float | None
    ) -> AsyncGenerator[RecordBatch, None]:
        """The same from where a cursor was committed: the log has reached that, whatever bookies know yet."""
        self._cluster.check_process()
        async with aclosing(self._reader.tail(start, timeout)) as batches:
            async for batch in batches:
                self._count_read(batch)
                yield batch

    def _count_read(self, batch: RecordBatch) -> None:
        if (metrics := self._cluster.log_metrics) is not None:
            metrics.read_records.inc(len(batch.positions))

    async def poll(self, start: int, *, timeout: float, records_max: int = 1000) -> list[Record]:
        """Waits for records from `start` on; returns some, at most so many, and none after `timeout` seconds.

        For loops that do other things in between. Raises as `tail`, ValueError for `records_max` below 1.
        """
        if records_max < 1:
            raise ValueError(f"a batch has 1 record at least, not {records_max}")
        async with aclosing(self.tail_batches(start, timeout=timeout)) as batches:
            async for batch in batches:
                return batch.records()[:records_max]
        return []

    @property
    def known_end(self) -> int:
        """The furthest that this client knows the log to reach, without asking anybody."""
        return self._known.position

    async def check_reaches(self, position: int) -> None:
        """Raises NoSuchPosition where the log ends before this position.

        One that another client may have confirmed just now is waited for, a second at most, until bookies know it.
        """
        self._cluster.check_process()
        await self._reader.check_reaches(position)

    async def position_at(self, time: datetime) -> int:
        """The first position whose record was appended at this time or later; the end where there is none.

        Raises ValueError for a time without a time zone.
        """
        self._cluster.check_process()
        if not isinstance(time, datetime):
            raise wrong_type("a time", "a datetime with a time zone", time)
        if time.tzinfo is None:
            raise ValueError(f"{time} has no time zone: say which, for example datetime.now(UTC)")
        return await self._reader.position_at(max(0, round(time.timestamp() * 1_000_000)))

    async def segments(self, start: int | None = None) -> AsyncIterator[Segment]:
        """Yields all segments that are left, in order, from the one on that holds `start`; the last one may be open."""
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
        """Opens a cursor. One that is not there is created at `start`, and stays at that position until it is moved.

        `start`: a position, a time, "beginning" or "end"; with None it must be there. What is committed is written
        every `commit_seconds`, and when the cursor is closed. Raises ValueError for an unusable name,
        NoSuchPosition, LogTruncated, NoSuchCursor.
        """
        self._cluster.check_process()
        state = await self._cursors.state(name, start)
        return Cursor(
            self._cluster, self, state, commit_seconds=commit_seconds, commits_at_close=commits_at_close
        )

    def consume(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> AsyncGenerator[Record, None]:
        """Yields records from where the cursor stands, each at least once, and commits what was used.

        One consumer has a cursor at a time, by a lease; further ones wait, and take over where it stopped. A record
        counts as used when the next one is asked for. The cursor is created at `start` if it is not there. Where it is
        moved by a seek, reading goes on there. `ConsumeOptions` describes the rest. Raises as `tail`; LogTruncated says
        that the cursor is below what is left, and then it stays until somebody seeks.
        """
        return self.consumption(name, start=start, **options).records()

    def consumption(
        self, name: str, *, start: Where = "beginning", **options: Unpack[ConsumeOptions]
    ) -> Consumption:
        """The same as `consume`, for callers that take the records in batches."""
        self._cluster.check_process()
        return Consumption(self._cursors, name, start, **options)

    async def lag(self, position: int) -> Lag:
        """How far a reader that stands at this position is behind the end. Raises as a read of the record there."""
        return await lag_of(self, position)

    async def cursors(self) -> AsyncIterator[tuple[str, CursorRecord]]:
        """Yields the name and the metadata of every cursor, in the order of names."""
        async for found in self._cursors.list():
            yield found

    async def delete_cursor(self, name: str) -> None:
        """Deletes a cursor. Raises NoSuchCursor."""
        self._cluster.check_process()
        await self._cursors.delete(name)

    # --- forks ----------------------------------------------------------------------------------------

    async def fork(self, name: str, *, at: Where = "end") -> Log:
        """Makes a log of this name that has the records of this one before a position, or a time; returns it.

        No record is copied: both share the ledgers, and a ledger is deleted when no log needs it any more (rule L13).
        The fork is written, read, truncated, retained, held and deleted by itself, under the same password. Producers
        come along; cursors, retention and a legal hold do not. If it is interrupted, a log may be left that can only be
        deleted.

        Raises LogExists, LogTruncated, NoSuchPosition, NotAllowed, ValueError for an unusable name.
        """
        self._cluster.check_process()
        return await self._forks.fork(self._chain, self._ledgers, name, await position_of(self, at))

    async def restore(self, *, at: Where, former: str = "", dry_run: bool = False) -> Restoration:
        """Takes the log back to a position, or a time: a fork that ends there gets the log's name, in one step.

        This is the former log from then on. It has another name, `former` or the log's with the time, and all that it
        had; nobody writes to it any more, and its writer is fenced before the step: it gets LogFenced. Who tails or
        consumes it gets LogRestored at its end. The restored log has the same cursors; those behind the position are
        set to it. With `dry_run` nothing is changed. Open the log again to use it.

        Raises as `truncate`, but not LogHeld: nothing is given up. LogExists where the former name is another log's,
        LogFenced where writers take the log over again and again.
        """
        record = await self.refresh()
        await check_no_member(self._cluster, record, "a set is not restored")
        await check_may_give_up(self._cluster, record, self._ledgers.password)
        position = await position_of(self, at)
        name = keys.check_name(former) if former else former_name(record.name)
        plan = await planned(self._chain, position, await self.end(), name)
        if not dry_run:
            await self._forks.restore(self._chain, self._ledgers, plan)
        return plan

    async def sharing(self) -> Sharing:
        """With which logs this one shares ledgers, and what only it needs."""
        record = await self.refresh()
        with metadata_errors():
            return await sharing_of(self._chain.logs, record)

    # --- giving up ------------------------------------------------------------------------------------

    async def truncate(self, before: int) -> None:
        """Gives up all records before this position. Segments that hold nothing else are deleted in the background.

        A position up to which it was truncated already is no error. Raises LogHeld, Unauthorized, NotAllowed,
        NoSuchPosition beyond the end.
        """
        check_int("a position", before)
        await check_may_give_up(self._cluster, await self.refresh(), self._ledgers.password)
        await self.check_reaches(before)

        def truncated(record: LogRecord) -> LogRecord:
            if record.legal_hold:
                raise LogHeld(record.name)
            return record.truncated(before)

        await self._chain.change(truncated)
        tell(Act.TRUNCATE, who=self._cluster.who, log=self.name, position=before)
        self._cleaning.start(self._chain, self._cluster.who)

    @property
    def retention(self) -> Retention:
        """What goes by itself, as it was seen last."""
        return self.record.retention

    async def set_retention(self, retention: Retention) -> None:
        """Settles what goes by itself: the elected auditor does it in the background. `Retention()`: nothing.

        Raises Unauthorized, NotAllowed for whoever may not truncate the log, LogOfSet for a log of a set.
        """
        await check_no_member(
            self._cluster, self.record, "`LogSet.set_retention` settles that of all its logs"
        )
        await check_may_give_up(self._cluster, await self.refresh(), self._ledgers.password)
        await self._chain.change(lambda record: record.retained(retention))
        tell(Act.RETENTION, who=self._cluster.who, log=self.name, **told(retention))

    async def retained(self) -> Retained:
        """What goes next, and what keeps it, as the metadata tells; `Retained.judged` says when."""
        record = await self.refresh()
        with metadata_errors():
            return await look(self._chain.logs, record)

    async def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold: while it lasts nothing of the log is given up, and no ledger of it deleted.

        It keeps what is left when it begins; a ledger that was given up before may be being deleted in that moment.
        Raises NotAllowed, LogOfSet for a log of a set.
        """
        await check_no_member(self._cluster, self.record, "`LogSet.set_legal_hold` holds all its logs")
        await self.refresh()
        check_may_change(self._cluster)
        await self._chain.change(lambda record: record.held(is_held))
        tell(Act.LEGAL_HOLD, who=self._cluster.who, log=self.name, is_held=is_held)
