"""Cursors: named positions in a log that outlive their readers."""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Self

from metadata.picklable_errors import Unavailable
from metadata.records.coordination.cursor_record import CursorRecord

from ...cluster import Cluster
from ...entry import check_int
from ...errors import LedgerError, MetadataWentBack
from ...tasks import end_tasks
from ..errors import CursorClosed, CursorMoved, CursorTakenOver, NoSuchPosition
from .cursor_calls import CursorState
from .lag import Lag, lag_of
from .start_position import ReadableLog, Where, position_of

log = logging.getLogger(__name__)

COMMIT_SECONDS = 1.0
"""Interval at which the position of a moving cursor is written. After a crash, records used since the last write are
delivered again."""

COMMIT_SECONDS_MAX = 3600.0

DOUBTED_MAX = 1000
"""The maximum number of commits beyond the known end of the log that may wait to be checked. If there are more, the
lowest are dropped; a later commit covers them."""

RETRY_SECONDS = 5.0
"""Minimum delay before a failed write of a cursor is retried."""


class Cursor:
    """A named position in a log: the position of the next record that its reader is to use.

    Made by `Log.cursor`; belongs to its event loop. `commit` moves the cursor forward; commits within `commit_seconds`
    are combined into one write. Only `seek` moves it back. Other readers get CursorMoved if, after a seek, they commit
    records that they read before the seek. `close` and leaving the context manager close the cursor.
    """

    def __init__(
        self,
        cluster: Cluster,
        of: ReadableLog,
        state: CursorState,
        *,
        commit_seconds: float = COMMIT_SECONDS,
        commits_at_close: bool = True,
        epoch: int | None = None,
    ) -> None:
        if not 0 <= commit_seconds <= COMMIT_SECONDS_MAX:
            raise ValueError(f"commit_seconds must be 0 to {COMMIT_SECONDS_MAX:g}, not {commit_seconds}")
        self._cluster = cluster
        self._log = of
        self._state = state
        self._commit_seconds = commit_seconds
        self._commits_at_close = commits_at_close
        self._epoch = epoch
        self.generation = state.record.generation
        """The number of the last seek known to this cursor. After a later seek, its commits are refused."""
        self._noted = state.record.position
        self._doubted: set[int] = set()  # commits beyond the known end of the log
        self._refused: NoSuchPosition | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.failure: LedgerError | None = None
        """The error that prevents commits; `refresh` and `seek` clear a CursorMoved."""
        cluster.places.add(self)

    def __repr__(self) -> str:
        return f"<Cursor {self.name!r} of log {self._log.name!r} at position {self.position}>"

    @property
    def name(self) -> str:
        """The cursor's name."""
        return self._state.name

    @property
    def record(self) -> CursorRecord:
        """The cursor's record, as last read or written."""
        return self._state.record

    @property
    def position(self) -> int:
        """The committed position: every record before it has been committed, and the commit has been written."""
        return self._state.record.position

    def commit(self, position: int) -> None:
        """Commits that every record before this position has been used. Returns at once; the commit is written shortly
        afterwards, or by `flush`.

        A position before the last commit has no effect. A position beyond the log's end is refused: the next `flush` or
        `close` raises NoSuchPosition for it once, but other commits are still written. If an earlier commit could not
        be written, raises the error that prevented it: CursorMoved, NoSuchCursor, CursorTakenOver or MetadataWentBack.
        Raises CursorClosed once the cursor is closed.
        """
        check_int("a position", position)
        self.check_usable()
        if self.note(position):
            self.start_writing()

    async def flush(self) -> None:
        """Writes the latest commit now. Raises the errors of `commit` and MetadataUnavailable. If a commit was refused
        since the last call, raises NoSuchPosition after the other commits have been written."""
        self.check_usable()
        await self._write()
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def _write(self) -> None:
        """Writes the furthest commit that is within the log; refuses any commit beyond the log's end."""
        doubted = set(self._doubted)
        refused = await self._judged(doubted)
        end = self._log.known_end
        noted = max([self._noted, *(position for position in doubted if position <= end)])
        if noted > self.position:
            now_ms = time.time_ns() // 1_000_000
            await self._state.change(lambda record: self._still_mine(record).committed(noted, now_ms))
            if (metrics := self._cluster.log_metrics) is not None:
                metrics.commits.inc()
        if refused is not None and not self._doubted.isdisjoint(doubted):
            self._refused = refused
            log.warning("cursor %r of log %r: a commit was refused: %s", self.name, self._log.name, refused)
        self._doubted.difference_update(doubted)

    async def _judged(self, doubted: set[int]) -> NoSuchPosition | None:
        """Checks how far the log reaches; returns an error if any of these commits is beyond the log's end, None
        otherwise."""
        try:
            if doubted:
                await self._log.check_reaches(max(doubted))
        except NoSuchPosition as error:
            return error
        return None

    async def seek(self, where: Where) -> int:
        """Moves the cursor forward or back to a position, a time, "beginning" or "end"; returns the position.

        From then on, other readers cannot commit records that they read before the seek. Raises NoSuchPosition,
        LogTruncated, ValueError for any other string, NoSuchCursor, MetadataUnavailable.
        """
        self._cluster.check_process()
        position, now_ms = await position_of(self._log, where), time.time_ns() // 1_000_000
        self._adopt(await self._state.change(lambda record: record.sought(position, now_ms)))
        return position

    async def refresh(self) -> int:
        """Reads the cursor's record again, because a seek by another client may have changed it; returns the position
        to continue reading from.

        Raises NoSuchCursor, MetadataUnavailable.
        """
        self._cluster.check_process()
        record = await self._state.refresh()
        if record.generation != self.generation:
            self._adopt(record)
        return self.position

    async def lag(self) -> Lag:
        """Returns how far the committed position is behind the log's end. Raises the errors of `refresh` and
        `Log.lag`."""
        await self.refresh()
        return await lag_of(self._log, self.position)

    async def close(self) -> None:
        """Writes the latest commit and closes the cursor; with `commits_at_close=False`, writes nothing. Safe to
        repeat.

        Raises the errors of `flush`; the cursor is closed even then.
        """
        if self._is_closed:
            return
        self._cluster.places.discard(self)
        if self._writing is not None:
            await end_tasks([self._writing])
        try:
            if self._commits_at_close and self.failure is None:
                await self.flush()
        finally:
            self._is_closed = True

    async def leave(self, why: str) -> None:
        """Closes the cursor because its client is being closed; logs errors."""
        try:
            await self.close()
        except LedgerError as error:
            line = "%s: cursor %r of log %r stays at position %d: %s"
            log.warning(line, why, self.name, self._log.name, self.position, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- for consumers, and for other threads -----------------------------------------------------------

    def note(self, position: int) -> bool:
        """Notes a position to be committed; returns whether the caller must call `start_writing` on the event loop."""
        if position <= self._noted:
            return False
        if position <= self._log.known_end:
            self._noted = position
        else:
            self._doubted.add(position)
            if len(self._doubted) > DOUBTED_MAX:
                self._doubted.discard(min(self._doubted))
        return self._writing is None or self._writing.done()

    @property
    def noted_position(self) -> int:
        """The furthest position that has been committed or noted."""
        return self._noted

    def start_writing(self) -> None:
        """Starts writing the noted commits. Must be called on the event loop."""
        if (self._writing is None or self._writing.done()) and not self._is_closed:
            self._writing = asyncio.create_task(self._write_later())

    def check_usable(self) -> None:
        """Raises the error that prevents commits, if there is one."""
        self._cluster.check_process()
        if self._is_closed:
            raise CursorClosed(self._log.name, self.name)
        if self.failure is not None:
            raise self.failure

    # ------------------------------------------------------------------------------------------------

    async def _write_later(self) -> None:
        """Writes until no unwritten commit remains; retries if the store is unavailable or refuses a request."""
        pause_seconds = self._commit_seconds
        while self._noted > self.position or self._doubted:
            await asyncio.sleep(pause_seconds)
            try:
                self.check_usable()
                await self._write()
                pause_seconds = self._commit_seconds
            except LedgerError as error:
                if not isinstance(error, Unavailable) or isinstance(error, MetadataWentBack):
                    self.failure = error
                    return
                pause_seconds = max(RETRY_SECONDS, self._commit_seconds)
                line = "cursor %r of log %r could not yet be moved to position %d: %s"
                log.warning(line, self.name, self._log.name, self._noted, error)

    def _still_mine(self, record: CursorRecord) -> CursorRecord:
        if record.generation != self.generation:
            raise CursorMoved(self._log.name, self.name, record.position)
        if self._epoch is not None and record.epoch != self._epoch:
            raise CursorTakenOver(self._log.name, self.name, record.consumer)
        return record

    def _adopt(self, record: CursorRecord) -> None:
        self.generation = record.generation
        self._noted = record.position
        self._doubted.clear()
        self.failure = None
