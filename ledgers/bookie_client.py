"""The interface between the client and bookies: calls, lanes, and lane callbacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from bookie.wire import (
    NO_IDENTITY,
    NO_NOTE,
    Columns,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
)
from metadata.records.ledger_record import BookieRef

from .errors import BookieUnavailable
from .integrity.ledger_keys import LedgerKey


class CannotScan(BookieUnavailable):
    """The bookie is alive but refused or ended this scan: read page by page, or scan again."""


@dataclass(frozen=True, slots=True)
class LaneTerms:
    """Settings for all frames on a lane. `trace_of` returns the trace of a frame, given its first entry. `note` returns
    the note that the bookie should currently have about the ledger; if the note has changed, the next frame carries it.
    """

    ledger_id: int
    key: LedgerKey
    recovery: bool = False
    deferred_sync: bool = False
    identity: bytes = NO_IDENTITY
    trace_of: Callable[[int], bytes] | None = None
    note: Callable[[], bytes] = lambda: NO_NOTE


class LaneListener(Protocol):
    """Callbacks for the outcome of entries sent on a lane. No callback follows `failed` or `refused`."""

    def acked(self, through: int) -> None:
        """Called when everything sent on the lane through entry `through` is on the bookie's disk."""
        ...

    def written(self, through: int) -> None:
        """Called when everything sent through entry `through` is in the bookie's log; only with deferred sync."""
        ...

    def behind(self, why: str) -> None:
        """Called when the lane's backlog exceeds its limit even though the bookie is making progress: send no more
        entries for now."""
        ...

    def caught_up(self) -> None:
        """Called when the backlog is within its limit again."""
        ...

    def failed(self, why: str) -> None:
        """Called when the bookie has failed; unacknowledged entries may or may not be on its disk."""
        ...

    def refused(self, status: Status, why: str) -> None:
        """Called when the bookie refuses this writer (`FATAL_STATUSES`); `why` is the bookie's explanation, if it gave
        one."""
        ...


class Lane(Protocol):
    """One attempt to send one ledger's entries to one bookie, in order."""

    def send(self, columns: Columns) -> None:
        """Queues entries, in id order and after all entries sent before. If the backlog exceeds its limit, the lane is
        behind."""
        ...

    def send_lac(self) -> None:
        """Queues a frame with only the last-add-confirmed, unless entries are already waiting."""
        ...

    def force(self) -> None:
        """Queues a sync of all entries sent; `acked` reports when they are on disk."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the columns that are queued or sent but not yet acknowledged."""
        ...

    def close(self) -> None:
        """Drops the queue; the listener receives no further callbacks."""
        ...


class BookieClient(Protocol):
    """Makes calls to bookies, each identified by its name and incarnation (rule W7). Belongs to one event loop.

    Calls raise BookieUnavailable if they were not made or not answered in time; refusals are returned as statuses in
    the reply.
    """

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> Lane:
        """Opens a lane; each frame contains the statement that `last_add_confirmed` returns at the time of sending."""
        ...

    def send_note(self, bookie: BookieRef, terms: LaneTerms, note: bytes) -> None:
        """Sends the bookie this note about a ledger soon, if it can be reached; the note is not acknowledged."""
        ...

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply: ...

    def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        """Yields the pages of a scan, through the last page. Close the generator to stop early.

        Also raises CannotScan.
        """
        ...

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply: ...

    async def info(self, bookie: BookieRef) -> InfoReply: ...

    def heard_at(self, bookie: BookieRef) -> float:
        """Returns the time, by the loop's clock, when the bookie last sent anything; -inf while it is not connected."""
        ...

    async def close(self) -> None:
        """Ends every call and connection."""
        ...
