"""The log writer: a thread with group commit, one `fdatasync` for all waiting records (rule B1).

The thread takes all waiting records (up to a bound), writes them with as few calls as the kernel allows, syncs once,
and only then reports them durable, in order. The next group forms during a sync; no timer is involved.

A record whose sync was deferred is reported when it is written, and again when a later sync has covered it. That sync
takes place when another record needs one, or after UNSYNCED_BYTES_MAX or DEFERRED_SYNC_SECONDS_MAX. A record without a
ticket is reported only once, either as durable or as written, and causes no sync.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import NamedTuple

from ..disk.disk import Disk
from ..disk.reserve import NoReserve, Reserve
from ..wire.named_tuples import made_of
from .appender import DISK_FULL, DiskFull, LogAppender
from .format import SEGMENT_HEADER, BookieLogRecord, record_bytes

log = logging.getLogger(__name__)

GROUP_BYTES_MAX = 8 * 1024 * 1024
"""Maximum size of one group; limits the duration of one sync, and therefore how long a writer waits."""

UNSYNCED_BYTES_MAX = 8 * 1024 * 1024
"""Maximum total size in bytes of records with deferred sync that are waiting for a sync."""

DEFERRED_SYNC_SECONDS_MAX = 1.0
"""Maximum time that a record with deferred sync waits if nothing else needs a sync."""

RELEASES_MAX = 8
"""Maximum number of times that one group may draw on the reserve; if it needs more, another program is using up the
space."""

Ticket = object | None


class Written(NamedTuple):
    """A record in the log, its position, and the ticket with which it was submitted."""

    record: BookieLogRecord
    position: int
    size: int
    ticket: Ticket


class _QueuedRecord(NamedTuple):
    record: BookieLogRecord
    size: int
    ticket: Ticket
    deferred_sync: bool


_SIZE, _DEFERRED_SYNC = attrgetter("size"), attrgetter("deferred_sync")

_written: Callable[[tuple[BookieLogRecord, int, int, Ticket]], Written] = made_of(Written)
_waiting: Callable[[tuple[BookieLogRecord, int, Ticket, bool]], _QueuedRecord] = made_of(_QueuedRecord)


class BookieLogWriter:
    """Appends records on one thread. The callbacks are called on that thread, never concurrently:

    - `on_sync(seconds, records, bytes)` after each sync, before `on_durable`.
    - `on_durable(written, next_position)` for the records that a sync has covered, each of them once.
    - `on_written(written)` for records whose sync is deferred, before `on_durable`.
    - `on_refused(tickets_and_records, error)` when the disk is full. None of these records remains in the log, but
      later groups may succeed.
    - `on_failure(error)` once, if a write or sync failed or anything else went wrong. The writer has then ended, and
      acknowledges nothing after that.
    """

    def __init__(
        self,
        disk: Disk,
        incarnation: str,
        first_segment: int,
        *,
        on_durable: Callable[[Sequence[Written], int], None],
        on_refused: Callable[[Sequence[tuple[Ticket, BookieLogRecord]], OSError], None],
        on_failure: Callable[[Exception], None],
        on_written: Callable[[Sequence[Written]], None],
        on_sync: Callable[[float, int, int], None] = lambda *_: None,
        reserve: Reserve | None = None,
        segment_bytes_max: int | None = None,
    ) -> None:
        self._on_durable = on_durable
        self._on_refused = on_refused
        self._on_failure = on_failure
        self._on_written = on_written
        self._on_sync = on_sync
        self._reserve = reserve or NoReserve()
        self._appender = self._begin(disk, incarnation, first_segment, segment_bytes_max)
        self._unsynced: list[Written] = []
        self._unsynced_since = 0.0
        self._submitted: SimpleQueue[_QueuedRecord | None] = SimpleQueue()  # None tells the thread to end
        self._taken: deque[_QueuedRecord] = deque()  # submitted, but not in a group yet
        self._stopping = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="bookie-log", daemon=True
        )

    def _begin(self, disk: Disk, incarnation: str, first_segment: int, bytes_max: int | None) -> LogAppender:
        try:
            return LogAppender(disk, incarnation, first_segment, bytes_max)
        except OSError as error:
            if error.errno not in DISK_FULL or not self._reserve.release(SEGMENT_HEADER.size):
                raise
            return LogAppender(disk, incarnation, first_segment, bytes_max)

    _now = staticmethod(time.monotonic)

    def start(self) -> None:
        self._thread.start()

    def submit(self, record: BookieLogRecord, ticket: Ticket, *, deferred_sync: bool = False) -> int:
        """Queues a record and returns its size in the log. May be called from any thread. The caller must bound the
        queue."""
        size = record_bytes(record)
        self._submitted.put(_waiting((record, size, ticket, deferred_sync)))
        return size

    def stop(self) -> None:
        """Writes and syncs the waiting records, then ends the thread. Blocks until it has ended."""
        self._submitted.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Number of records that are not in a group yet."""
        return self._submitted.qsize() + len(self._taken)

    @property
    def position(self) -> int:
        """Position of the next record; meaningful only on the writer's thread and after `stop`."""
        return self._appender.position

    @property
    def syncs(self) -> int:
        """Number of group syncs."""
        return self._appender.syncs

    @property
    def busy_seconds(self) -> float:
        """How long, in seconds, the log has been writing and syncing the current group; 0 while it waits for a group.
        Can be read from any thread."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        try:
            while (group := self._next_group()) is not None:
                self._busy_since = time.monotonic()
                self._commit(group)
                self._busy_since = None
            self._appender.seal()
            self._report_durable()
        except Exception as error:  # any error: no caller may be left waiting for a thread that has ended
            log.critical("the log cannot be written: %s", error)
            self._on_failure(error)
        finally:
            self._appender.close()

    def _next_group(self) -> list[_QueuedRecord] | None:
        """Returns all waiting records, up to GROUP_BYTES_MAX; an empty group if a deferred sync is due; None if the
        writer has to end."""
        if not self._taken and not self._stopping:
            try:
                self._take(self._submitted.get(timeout=self._seconds_to_sync() if self._unsynced else None))
            except Empty:
                return []
        for _ in range(self._submitted.qsize()):
            self._take(self._submitted.get())
        if not self._taken:
            return None
        group: list[_QueuedRecord] = []
        room = GROUP_BYTES_MAX
        while self._taken and (not group or self._taken[0].size <= room):
            room -= self._taken[0].size
            group.append(self._taken.popleft())
        return group

    def _take(self, submitted: _QueuedRecord | None) -> None:
        if submitted is None:
            self._stopping = True
        else:
            self._taken.append(submitted)

    def _commit(self, group: Sequence[_QueuedRecord]) -> None:
        """Writes the group; syncs if any of its records needs a sync, or if a deferred sync is due."""
        if self._reserve.is_touched:
            group = self._refuse_but_urgent(group, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            if not group and not self._unsynced:
                return
        group = self._append_what_fits(group)
        if not group and not self._unsynced:
            return
        if not all(map(_DEFERRED_SYNC, group)) or self._sync_is_due():
            self._sync()
        written = self._report_durable()
        if written and group:
            self._on_written(written[-len(group) :])
            self._unsynced = [one for one in written if one.ticket is not None]

    def _sync(self) -> None:
        began = time.perf_counter()
        self._appender.sync()  # nothing in the log is acknowledged as durable before this line
        size = sum(map(_SIZE, self._unsynced))
        self._on_sync(time.perf_counter() - began, len(self._unsynced), size)

    def _append_what_fits(self, group: Sequence[_QueuedRecord]) -> Sequence[_QueuedRecord]:
        """Appends the group or, if the disk is full, only the urgent records, provided that the reserve has room for
        them. Refuses the rest. Returns the appended records."""
        releases = 0
        while group:
            try:
                self._append(group)
                break
            except DiskFull as full:
                self._report_durable()  # the rollback of the group has synced everything before it
                group = self._refuse_but_urgent(group, full.error)
                if not group:
                    return []  # refused records must not use up the reserve
                releases += 1
                if releases > RELEASES_MAX or not self._reserve.release(sum(w.size for w in group)):
                    self._refuse(group, full.error)
                    return []
        return group

    def _refuse_but_urgent(self, group: Sequence[_QueuedRecord], error: OSError) -> list[_QueuedRecord]:
        """Refuses all records except fences, recovery writes and the like, which may use the rest of the disk (rule
        B4). Returns the records that were not refused."""
        self._refuse([waiting for waiting in group if not waiting.record.is_urgent], error)
        return [waiting for waiting in group if waiting.record.is_urgent]

    def _refuse(self, group: Sequence[_QueuedRecord], error: OSError) -> None:
        if group:
            self._on_refused([(waiting.ticket, waiting.record) for waiting in group], error)

    def _append(self, group: Sequence[_QueuedRecord]) -> None:
        records, sizes, _, _ = zip(*group, strict=True)
        position = self._appender.append(records, sizes)
        if not self._unsynced:
            self._unsynced_since = self._now()
        for record, size, ticket, _ in group:
            self._unsynced.append(_written((record, position, size, ticket)))
            position += size

    def _sync_is_due(self) -> bool:
        is_large = sum(map(_SIZE, self._unsynced)) >= UNSYNCED_BYTES_MAX
        return is_large or self._seconds_to_sync() == 0

    def _seconds_to_sync(self) -> float:
        return max(0.0, self._unsynced_since + DEFERRED_SYNC_SECONDS_MAX - self._now())

    def _report_durable(self) -> list[Written]:
        """Reports the records newly covered by a sync; returns those not covered yet."""
        synced = self._appender.synced_position
        durable = [written for written in self._unsynced if written.position < synced]
        self._unsynced = self._unsynced[len(durable) :]
        if durable:
            self._on_durable(durable, synced)
        return self._unsynced
