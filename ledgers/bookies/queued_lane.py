"""One ledger's queue on an append stream: entries in order, their frames and acknowledgements."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from bookie.wire import (
    FRAME_BYTES_MAX,
    FRAME_ENTRIES_MAX,
    NO_ENTRIES,
    NO_ENTRY,
    NO_NOTE,
    NO_TRACE,
    Columns,
    Credential,
    Frame,
    LacStatement,
    Status,
    join,
)
from bookie.wire.messages import new_frame

from ..bookie_client import LaneListener, LaneTerms

FATAL_STATUSES = (Status.FENCED, Status.UNAUTHORIZED, Status.WRONG_IDENTITY)
"""Status codes of refusals that replacing the bookie would not remedy (rules W5, W8)."""


class LaneStream(Protocol):
    """The methods of an append stream that a lane uses."""

    def lane_has_work(self, lane: QueuedLane, size_bytes: int = 0) -> None: ...
    def lane_dropped(self, size_bytes: int) -> None: ...
    def lane_closed(self, lane: QueuedLane) -> None: ...
    def send_note(self, terms: LaneTerms, note: bytes) -> None: ...
    def credential_of(self, terms: LaneTerms) -> Credential: ...


class QueuedLane:
    """A lane: entries queued for one ledger on one stream."""

    def __init__(
        self,
        stream: LaneStream,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
        *,
        backlog_bytes_max: int,
        fails_behind: bool = False,
    ) -> None:
        self._stream = stream
        self._terms = terms
        self._listener: LaneListener | None = listener
        self._last_add_confirmed = last_add_confirmed
        self._backlog_bytes_max = backlog_bytes_max
        self._fails_behind = fails_behind
        self._is_behind = False
        self._queue: deque[tuple[Columns, int]] = deque()  # columns and their size
        self._lac_wanted = False
        self._sync_wanted = False
        self._sent_through = -1
        self._credential: Credential | None = None
        self._noted = NO_NOTE  # the last note that was sent to the bookie
        self.in_line = False  # whether this lane is in the stream's queue of lanes with work
        self.backlog_bytes = 0

    @property
    def has_work(self) -> bool:
        return bool(self._queue) or self._lac_wanted or self._sync_wanted

    def send(self, columns: Columns) -> None:
        if self._listener is None:
            return  # the lane has failed or been closed, but the sender has not noticed yet
        size = columns.size_bytes
        self._queue.append((columns, size))
        self.backlog_bytes += size
        self._stream.lane_has_work(self, size)
        if self.backlog_bytes > self._backlog_bytes_max and not self._is_behind:
            self._is_behind = True
            self._fall_behind(f"it is more than {self._backlog_bytes_max} bytes behind")

    def send_lac(self) -> None:
        self._lac_wanted = True
        self._stream.lane_has_work(self)

    def force(self) -> None:
        self._sync_wanted = True
        self._stream.lane_has_work(self)

    def close(self) -> None:
        """See Lane. If the bookie has entries but lacks the ledger's current note, which usually records the ledger's
        end, the note is sent to it."""
        if self._listener is not None and self._credential is not None and (note := self._new_note()):
            self._stream.send_note(self._terms, note)
        self._listener = None
        self._stream.lane_dropped(sum(size for _, size in self._queue))
        self._queue.clear()
        self._lac_wanted = self._sync_wanted = False
        self.backlog_bytes = 0
        self._stream.lane_closed(self)

    def fail(self, why: str) -> None:
        listener = self._listener
        self.close()
        if listener is not None:
            # Called later, because the listener's machine may be in the middle of the step that sent the entries.
            asyncio.get_running_loop().call_soon(listener.failed, why)

    def _fall_behind(self, why: str) -> None:
        if self._fails_behind:
            self.fail(why)
        elif self._listener is not None:
            asyncio.get_running_loop().call_soon(self._report_behind, why)

    def _report_behind(self, why: str) -> None:
        if self._listener is not None and self._is_behind:
            self._listener.behind(why)

    def _catch_up(self) -> None:
        """Reports the lane as caught up only once its backlog is below the bound by at least the size of a full frame,
        so that the lane's state does not flip with every frame."""
        if self.backlog_bytes <= self._backlog_bytes_max - FRAME_BYTES_MAX:
            self._is_behind = False
            if self._listener is not None:
                self._listener.caught_up()

    def next_frame(self, bytes_max: int) -> tuple[Frame, int, int] | None:
        """Makes a frame of as many waiting entries as fit; None if no entry is waiting.

        Also returns the size of the frame's columns, and the last entry that is on disk once the frame is answered OK;
        −1 for none.
        """
        terms = self._terms
        deferred, trace = terms.deferred_sync, NO_TRACE
        if self._queue:
            columns, size = self._queue.popleft()
            if self._queue:
                columns, size = self._with_more(columns, size, bytes_max)
            through = self._sent_through = columns.last_entry
            if terms.trace_of is not None:
                trace = terms.trace_of(columns.first_entry)
        elif self._lac_wanted or self._sync_wanted:
            columns, size = NO_ENTRIES, 0
            # Relevant only with deferred sync; otherwise each earlier frame has its own answer.
            through = self._sent_through if deferred else NO_ENTRY
        else:
            return None
        if self._sync_wanted and not self._queue:  # the sync is requested with the last waiting entries
            self._sync_wanted = deferred = False
        self._lac_wanted = False
        credential = self._credential
        if credential is None:
            credential = self._credential = self._stream.credential_of(terms)
        whose = terms.recovery, credential, deferred, trace, terms.identity
        frame = new_frame((terms.ledger_id, columns, self._last_add_confirmed(), *whose, self._new_note()))
        return frame, size, through

    def _new_note(self) -> bytes:
        """Returns the ledger's current note, unless it has already been sent to the bookie."""
        note = self._terms.note()
        if note is self._noted:
            return NO_NOTE
        self._noted = note
        return note

    def _with_more(self, columns: Columns, size: int, bytes_max: int) -> tuple[Columns, int]:
        """Adds as many of the following batches as fit."""
        parts, entries = [columns], len(columns)
        while self._queue:
            following, more = self._queue[0]
            entries += len(following)
            if size + more > bytes_max or entries > FRAME_ENTRIES_MAX:
                break
            size += more
            parts.append(following)
            self._queue.popleft()
        return join(parts), size

    def answered(self, status: Status, detail: str, through: int, size: int) -> None:
        """Handles the acknowledgement of a frame of this size whose last entry was `through`."""
        listener = self._listener
        if listener is None:
            return
        self.backlog_bytes -= size
        if self._is_behind:
            self._catch_up()
        if status is Status.OK:
            if through >= 0:
                listener.acked(through)
        elif status is Status.WRITTEN and self._terms.deferred_sync:
            listener.written(through)
        elif status in FATAL_STATUSES:
            self.close()
            listener.refused(status, detail)
        else:
            self.close()
            listener.failed(f"{status}{': ' + detail if detail else ''}")
