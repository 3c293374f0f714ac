"""The volatile state of a running acceptor, and the checks that need only this state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from metadata.errors import CONFLICTS_MAX
from metadata.records.journal_record import JournalState, SegmentRecord
from metadata.records.journal_store import VersionedState

from ...errors import BadRequest, JournalNotFormatted, JournalOutOfSync, JournalUnavailable, StaleEpoch
from ...requests import RequestInfo, SegmentState, SendEdits
from .acceptor_effects import LedgerEnd, Program, R, ReadState, SwapState


@dataclass(slots=True)
class CurrentSegment:
    """The segment that this acceptor appends to. While batches are in flight, `next_txid` is ahead of the disk."""

    start_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    next_txid: int
    durable_txid: int


@dataclass(slots=True)
class Memory:
    """One acceptor's volatile state. Losing it has the effect of a restart: the open segment is then closed for
    writing.

    `state` may be stale, because another process may have promised the journal to another writer in the meantime. Any
    call from a writer may be refused on the basis of `state`, but only appends may be admitted, because the ledger's
    fence protects them.
    """

    journal_id: str
    stored: VersionedState | None = None
    serial: int = -1
    serial_epoch: int = 0
    committed_txid: int | None = None
    open: CurrentSegment | None = None
    generation: int = 0
    archived: set[int] = field(default_factory=set)

    @property
    def state(self) -> JournalState | None:
        return None if self.stored is None else self.stored.state

    # --- the metadata ----------------------------------------------------------------------------

    def fresh(self) -> Program[JournalState]:
        """Reads the current state of a formatted journal (check 1)."""
        self.stored = yield from ReadState()
        state = self.state
        if state is None or state.storage is None:
            raise JournalNotFormatted(self.journal_id)
        # If the generation differs, some process has formatted, upgraded or rolled back the journal, or discarded
        # segments.
        if state.generation != self.generation:
            self.generation = state.generation
            self.committed_txid = None
            self.archived.clear()
        self.note_committed(state.committed_txid)
        return state

    def look(self) -> Program[JournalState | None]:
        """Reads the current state for a read-only call. Does not change `stored`, because another call may be about to
        swap that state."""
        found = yield from ReadState()
        return found.state if found is not None else None

    def look_formatted(self) -> Program[JournalState]:
        """Like `look`, but requires a formatted journal (check 1)."""
        state = yield from self.look()
        if state is None or state.storage is None:
            raise JournalNotFormatted(self.journal_id)
        self.note_committed(state.committed_txid)
        return state

    def look_readable(self) -> Program[JournalState]:
        """Like `look`, but requires a journal that is formatted or in the middle of an upgrade, because a NameNode also
        reads the journal during an upgrade."""
        state = yield from self.look()
        if state is None or (state.storage is None and state.previous is None):
            raise JournalNotFormatted(self.journal_id)
        self.note_committed(state.committed_txid)
        return state

    def fresh_or_none(self) -> Program[JournalState | None]:
        """Reads the current state, whether or not the journal is formatted."""
        self.stored = yield from ReadState()
        return self.stored.state if self.stored is not None else None

    def swap(self, state: JournalState) -> Program[JournalState | None]:
        """Replaces the last-read state, using compare-and-swap. Returns the new state, or None on a conflict."""
        version = self.stored.version if self.stored is not None else None
        stored = yield from SwapState(state, version)
        if stored is None:
            return None
        self.stored = stored
        return state

    def until_swapped(self, attempt: Callable[[], Program[R | None]]) -> Program[R]:
        """Repeats `attempt` as long as it returns None, which signals a conflict. Each attempt begins by reading the
        state."""
        for _ in range(CONFLICTS_MAX):
            if (done := (yield from attempt())) is not None:
                return done
        raise JournalUnavailable(
            f"the state of journal {self.journal_id} was changed concurrently {CONFLICTS_MAX} times; try again"
        )

    # --- the committed txid ---------------------------------------------------------------------------

    def note_committed(self, txid: int | None) -> None:
        """Raises the committed txid to `txid`, as reported by a writer, a ledger or the state. Never lowers it."""
        if txid is not None and (self.committed_txid is None or txid > self.committed_txid):
            self.committed_txid = txid

    def note_end(self, end: LedgerEnd) -> None:
        self.note_committed(end.committed_txid)

    # --- checks ----------------------------------------------------------------------------------------

    def refuse_stale(self, epoch: int, promised: int) -> None:
        """Performs check 2a: refuses an epoch below the promised one."""
        if epoch < promised:
            raise StaleEpoch(
                f"IPC's epoch {epoch} is less than the last promised epoch {promised} ; "
                f"journal id: {self.journal_id}"
            )

    def take_number(self, info: RequestInfo) -> None:
        """Performs checks 2c and 2d: serial numbers must increase within an epoch, and the committed txid must never
        decrease."""
        if info.epoch != self.serial_epoch:  # the epoch may have been promised by another process
            self.serial, self.serial_epoch = -1, info.epoch
        if info.serial <= self.serial:
            raise JournalOutOfSync(
                f"IPC serial {info.serial} from client was not higher than "
                f"prior highest IPC serial {self.serial} ; journal id: {self.journal_id}"
            )
        self.serial = info.serial
        if info.committed_txid is None:
            return
        if self.committed_txid is not None and info.committed_txid < self.committed_txid:
            raise BadRequest(
                f"Client trying to move committed txid backward from {self.committed_txid} "
                f"to {info.committed_txid} ; journal id: {self.journal_id}"
            )
        self.committed_txid = info.committed_txid

    def check_writer(self, epoch: int, state: JournalState) -> None:
        """Performs check 3: the epoch must be that of the current writer."""
        if epoch != state.last_writer_epoch:
            raise StaleEpoch(
                f"IPC's epoch {epoch} is not the current writer epoch  {state.last_writer_epoch} ; "
                f"journal id: {self.journal_id}"
            )

    def segment_for(self, request: SendEdits) -> CurrentSegment:
        """Returns the open segment if the batch continues it. Raises JournalOutOfSync otherwise."""
        segment = self.open
        if segment is None:
            raise JournalOutOfSync(f"Can't write, no segment open ; journal id: {self.journal_id}")
        if segment.start_txid != request.segment_txid:
            self.open = None
            raise JournalOutOfSync(
                f"Writer out of sync: it thinks it is writing segment {request.segment_txid} "
                f"but current segment is {segment.start_txid} ; journal id: {self.journal_id}"
            )
        if segment.next_txid != request.first_txid:
            raise JournalOutOfSync(
                f"Can't write txid {request.first_txid} expecting nextTxId={segment.next_txid} ; "
                f"journal id: {self.journal_id}"
            )
        return segment


def state_of(segment: SegmentRecord) -> SegmentState:
    """Returns a sealed segment in the form exchanged during recovery."""
    assert segment.end_txid is not None
    return SegmentState(segment.start_txid, segment.end_txid, not segment.finalized, segment.writer_epoch)
