"""Requests to an acceptor and their replies: one class per call.

Each request is a `Request[R]`, where R is the type of its reply. Requests that change a journal carry a `RequestInfo`,
which the channel to the acceptor fills in. The names are those of Hadoop's QJournalProtocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

from metadata.records.journal_record import JournalStorage

R = TypeVar("R")

INVALID_TXID = -12345
"""Hadoop's value for "no transaction id"."""


class Request(Generic[R]):
    """A call whose reply is an R."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Identifies the caller: the writer's epoch, the serial number of the call within that epoch, and the writer's
    committed txid."""

    epoch: int
    serial: int
    committed_txid: int | None = None


UNNUMBERED = RequestInfo(0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRequest(Request[R]):
    """A call that is refused unless it comes from the latest writer."""

    info: RequestInfo = UNNUMBERED

    def numbered(self, info: RequestInfo) -> Self:
        """Returns a copy of the call with this info."""
        return replace(self, info=info)


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """The HDFS namespace whose edits a NameNode writes."""

    namespace_id: int
    cluster_id: str
    block_pool_id: str = ""
    c_time: int = 0
    layout_version: int = -63
    build_version: str = ""
    software_version: str = ""

    @classmethod
    def of(cls, storage: JournalStorage) -> Self:
        return cls(
            storage.namespace_id,
            storage.cluster_id,
            c_time=storage.c_time,
            layout_version=storage.layout_version,
        )

    @property
    def storage(self) -> JournalStorage:
        """The part of the namespace info that a journal stores."""
        return JournalStorage(self.layout_version, self.namespace_id, self.cluster_id, self.c_time)


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A segment in the form that recoveries exchange.

    `writer_epoch` distinguishes edits that two writers wrote at the same txids, which Hadoop's state does not do; 0 if
    unknown.
    """

    start_txid: int
    end_txid: int
    in_progress: bool
    writer_epoch: int = 0


@dataclass(frozen=True, slots=True)
class IsFormatted(Request[bool]):
    """Asks whether the acceptor has this journal."""


@dataclass(frozen=True, slots=True)
class GetStorageInfo(Request[JournalStorage]):
    """Asks for the storage info of the journal's namespace."""


@dataclass(frozen=True, slots=True)
class Format(Request[None]):
    """Formats the journal. `force` discards all its contents.

    `promised_epoch` and `joined_behind` are set for an acceptor that joins others: the latest epoch that the others
    promised, and the first txid of the segment that they have in progress.
    """

    namespace: NamespaceInfo
    force: bool = False
    promised_epoch: int = 0
    joined_behind: int = 0


@dataclass(frozen=True, slots=True)
class JournalStateReply:
    """The highest epoch that an acceptor has promised."""

    last_promised_epoch: int


@dataclass(frozen=True, slots=True)
class GetJournalState(Request[JournalStateReply]):
    """Asks for the highest epoch that the acceptor has promised."""


@dataclass(frozen=True, slots=True)
class NewEpochReply:
    """The reply to NewEpoch: the first txid of the acceptor's latest segment with edits."""

    last_segment_txid: int | None = None


@dataclass(frozen=True, slots=True)
class NewEpoch(Request[NewEpochReply]):
    """Promises the journal to the writer of this epoch, and to no earlier one.

    `owner` is the id of the writer's process, if it has one. The id is unique, and the same in all of the process's
    calls.
    """

    namespace: NamespaceInfo
    epoch: int
    owner: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLogSegment(WriterRequest[None]):
    """Begins a segment. If `layout_version` is None, the segment has the journal's layout."""

    txid: int
    layout_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEdits(WriterRequest[None]):
    """Hadoop's `journal`: appends a batch; `records` contains `num_txns` op frames. An empty batch only reports a
    commit.

    `is_checked`: these exact bytes have already been validated in this process.
    """

    segment_txid: int
    first_txid: int
    num_txns: int
    records: bytes = field(repr=False)
    is_checked: bool = False

    @property
    def last_txid(self) -> int:
        return self.first_txid + self.num_txns - 1

    def numbered(self, info: RequestInfo) -> Self:
        # Like `replace`, at half the cost: this runs for each batch.
        return type(self)(
            info=info,
            segment_txid=self.segment_txid,
            first_txid=self.first_txid,
            num_txns=self.num_txns,
            records=self.records,
            is_checked=self.is_checked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(WriterRequest[None]):
    """Sends the committed txid to an out-of-sync acceptor, so that readers of that acceptor learn of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeLogSegment(WriterRequest[None]):
    """Finalizes a segment; its end can no longer change."""

    start_txid: int
    end_txid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeLogs(WriterRequest[None]):
    """Deletes segments that end before `min_txid_to_keep`."""

    min_txid_to_keep: int


@dataclass(frozen=True, slots=True)
class PrepareReply:
    """An acceptor's copy of a segment, with the epoch in which the acceptor accepted a recovery of it, if any."""

    segment: SegmentState | None = None
    accepted_in_epoch: int | None = None
    last_writer_epoch: int = 0
    last_committed_txid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRecovery(WriterRequest[PrepareReply]):
    """Phase 1 of a recovery of one segment."""

    segment_txid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptRecovery(WriterRequest[None]):
    """Phase 2: accepts this segment, and copies it from the acceptor named `source` if the local copy differs."""

    state: SegmentState
    source: str


@dataclass(frozen=True, slots=True)
class RemoteEditLog:
    """A segment in a manifest. If it is in progress, `end_txid` is the last transaction written so far.

    `writer_epoch` is the epoch of the segment's writer (0: unknown), and `committed_txid` the highest txid that this
    writer recorded in the segment as being on a quorum. `accepted_in_epoch` is the epoch of the recovery that chose
    this end, or 0 if none did. Hadoop's manifest has none of these fields.
    """

    start_txid: int
    end_txid: int
    in_progress: bool = False
    writer_epoch: int = 0
    committed_txid: int | None = None
    accepted_in_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The segments that an acceptor can serve, in order, without overlaps.

    `purged_below`: the acceptor has purged the segments that end before this txid (0: none, or unknown). Hadoop's
    manifest has no such field.
    """

    logs: Sequence[RemoteEditLog]
    committed_txid: int | None = None
    purged_below: int = 0


@dataclass(frozen=True, slots=True)
class GetEditLogManifest(Request[Manifest]):
    """Lists segments that contain `since_txid` or later edits. Available to any reader."""

    since_txid: int
    in_progress_ok: bool = False


@dataclass(frozen=True, slots=True)
class JournaledEdits:
    """Edits from an acceptor: `records` contains `txn_count` op frames of one layout, without a header.

    All were written by the writer of `writer_epoch`. `is_final` means that they belong to a finalized segment.
    `accepted_in_epoch` is the epoch of the recovery in which this acceptor accepted them, or 0 if there was none.
    """

    txn_count: int
    layout_version: int = 0
    records: bytes = field(default=b"", repr=False)
    writer_epoch: int = 0
    is_final: bool = False
    accepted_in_epoch: int = 0


@dataclass(frozen=True, slots=True)
class GetJournaledEdits(Request[JournaledEdits]):
    """Asks for at most `max_txns` edits that are on the acceptor's disks, starting at `since_txid`.

    With `cached_only`, raises EditsNotCached for edits that are not in memory, as a JournalNode does. Hadoop's own
    NameNodes rely on that error, and then read the segments.
    """

    since_txid: int
    max_txns: int
    cached_only: bool = False


@dataclass(frozen=True, slots=True)
class DoPreUpgrade(Request[None]):
    """First step of an upgrade: saves the state for a rollback.

    `owner`, here and in the requests below, is the id of the calling process. If the journal is promised to that
    process, the promise remains valid; all other writers are fenced.
    """

    owner: bytes = b""


@dataclass(frozen=True, slots=True)
class DoUpgrade(Request[None]):
    """Second step of an upgrade: continues the journal with this storage info."""

    storage: JournalStorage


@dataclass(frozen=True, slots=True)
class DoFinalize(Request[None]):
    """Finalizes an upgrade: it can no longer be rolled back. Does nothing if there is no upgrade."""


@dataclass(frozen=True, slots=True)
class CanRollBack(Request[bool]):
    """Asks whether there is a state with this layout to roll back to."""

    target_layout_version: int


@dataclass(frozen=True, slots=True)
class DoRollback(Request[None]):
    """Restores the state before the upgrade."""

    owner: bytes = b""


@dataclass(frozen=True, slots=True)
class DiscardSegments(Request[None]):
    """Drops every segment from `start_txid` on."""

    start_txid: int
    owner: bytes = b""


@dataclass(frozen=True, slots=True)
class GetJournalCTime(Request[int]):
    """Asks for the journal's creation time, which an upgrade changes."""


BatchDone = Callable[[Exception | None], None]


class Acceptor(Protocol):
    """The interface between a writer and an acceptor, regardless of where the acceptor runs."""

    @property
    def name(self) -> str:
        """The acceptor's name, unique within its journal."""
        ...

    async def call(self, request: Request[R]) -> R:
        """Returns the reply once the request's changes are durable. Raises JournalError."""
        ...

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        """Accepts a batch at once if that is possible without waiting. Returns False if `call` must be used instead.

        `done` is called later, exactly once, with the error that `call` would have raised, or with None.
        """
        ...

    async def close(self) -> None: ...
