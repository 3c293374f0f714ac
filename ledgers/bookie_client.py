"""What the client needs of a bookie: the seam between the protocol and the network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from bookie.wire import (
    NO_IDENTITY,
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
    """The bookie lives, and scans nothing, or no more of this: it is to be asked page by page, or anew."""


@dataclass(frozen=True, slots=True)
class LaneTerms:
    """What holds for everything sent on a lane. `trace_of` gives the trace of a frame that begins with this entry."""

    ledger_id: int
    key: LedgerKey
    recovery: bool = False
    deferred_sync: bool = False
    identity: bytes = NO_IDENTITY
    trace_of: Callable[[int], bytes] | None = None


class LaneListener(Protocol):
    """Told what becomes of what was sent on a lane. Nothing is told after `failed` or `refused`."""

    def acked(self, through: int) -> None:
        """Everything sent on the lane up to entry `through` is on the bookie's disk."""
        ...

    def written(self, through: int) -> None:
        """With deferred sync: everything sent up to entry `through` is in the bookie's log."""
        ...

    def behind(self, why: str) -> None:
        """More waits in the lane than its bound, and the bookie moves: nothing more ought to be sent for now."""
        ...

    def caught_up(self) -> None:
        """What waits is within the bound again."""
        ...

    def failed(self, why: str) -> None:
        """The bookie failed; what was not acknowledged may or may not be on its disk."""
        ...

    def refused(self, status: Status, why: str) -> None:
        """The bookie refuses this writer (`ENDS_THE_WRITER`); `why` in its own words, if it says more."""
        ...


class Lane(Protocol):
    """One attempt to send one ledger's entries to one bookie, in order."""

    def send(self, columns: Columns) -> None:
        """Queues entries, which follow in id order all sent before. Over its bound the lane is behind."""
        ...

    def send_lac(self) -> None:
        """Queues a frame with nothing but the last-add-confirmed, unless entries wait anyway."""
        ...

    def force(self) -> None:
        """Queues a sync behind all that was sent: `acked` tells when it is on disk."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the columns queued or sent, and not acknowledged."""
        ...

    def close(self) -> None:
        """Drops what is queued; the listener hears nothing more."""
        ...


class BookieClient(Protocol):
    """Calls to bookies, each named with its incarnation (rule W7). Belongs to one event loop.

    Calls raise BookieUnavailable when they did not happen or were not answered in time; refusals
    are statuses in the reply.
    """

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> Lane:
        """A lane; each frame carries what `last_add_confirmed` gives at the time of sending."""
        ...

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply: ...

    def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        """Page after page, through the one that ends the scan. To be closed by whoever wants no more.

        Raises CannotScan, too.
        """
        ...

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply: ...

    async def info(self, bookie: BookieRef) -> InfoReply: ...

    def heard_at(self, bookie: BookieRef) -> float:
        """When something came last from the bookie, by the loop's clock; -inf where nobody is connected to it."""
        ...

    async def close(self) -> None:
        """Ends every call and connection."""
        ...
