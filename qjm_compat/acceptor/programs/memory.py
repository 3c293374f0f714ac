"""What one running acceptor knows besides the metadata, and the checks that need nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from metadata.records.journal_record import JournalState, SegmentRecord
from metadata.records.journal_store import VersionedState

from ...errors import BadRequest, JournalNotFormatted, JournalOutOfSync, JournalUnavailable, StaleEpoch
from ...requests import RequestInfo, SegmentState, SendEdits
from .effects import LedgerEnd, Program, read_state, swap_state

CONFLICTS_MAX = 50
"""Changes by others that one call lives through before it gives up."""


@dataclass(slots=True)
class OpenSegment:
    """The segment this acceptor appends to. `next_txid` runs ahead of what is on disk while batches are under way."""

    start_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    next_txid: int
    durable_txid: int


@dataclass(slots=True)
class Memory:
    """One acceptor's memory. Losing it is a restart: the open segment is then closed for writing.

    `state` may be old: another process may have promised the journal to somebody else since. It is good enough to
    refuse a writer, and never good enough to let one in, but for appending: that the ledger itself refuses.
    """

    journal_id: str
    stored: VersionedState | None = None
    serial: int = -1
    serial_epoch: int = 0
    committed_txid: int | None = None
    open: OpenSegment | None = None
    generation: int = 0
    archived: set[int] = field(default_factory=set)

    # --- the metadata ----------------------------------------------------------------------------

    def fresh(self) -> Program[JournalState]:
        """The state as it stands, of a formatted journal (check C1)."""
        self.stored = yield from read_state()
        state = self.stored.state if self.stored is not None else None
        if state is None or state.storage is None:
            raise JournalNotFormatted(self.journal_id)
        if state.generation != self.generation:  # formatted, discarded or rolled back, here or elsewhere
            self.generation = state.generation
            self.committed_txid = None
            self.archived.clear()
        self.note_committed(state.committed_txid)
        return state

    def look(self) -> Program[JournalState | None]:
        """The state as it stands, for calls that change nothing: they run beside one that is about to swap."""
        found = yield from read_state()
        return found.state if found is not None else None

    def look_formatted(self) -> Program[JournalState]:
        """`look`, of a formatted journal (check C1)."""
        state = yield from self.look()
        if state is None or state.storage is None:
            raise JournalNotFormatted(self.journal_id)
        self.note_committed(state.committed_txid)
        return state

    def look_readable(self) -> Program[JournalState]:
        """`look`, of a journal that is formatted or half-way through an upgrade: a NameNode reads it then, too."""
        state = yield from self.look()
        if state is None or (state.storage is None and state.previous is None):
            raise JournalNotFormatted(self.journal_id)
        self.note_committed(state.committed_txid)
        return state

    def fresh_or_none(self) -> Program[JournalState | None]:
        """The state as it stands, formatted or not."""
        self.stored = yield from read_state()
        return self.stored.state if self.stored is not None else None

    def swap(self, state: JournalState) -> Program[bool]:
        """One compare-and-swap against the state read last; whether it stands now."""
        version = self.stored.version if self.stored is not None else None
        stored = yield from swap_state(state, version)
        if stored is None:
            return False
        self.stored = stored
        return True

    def gave_up(self) -> JournalUnavailable:
        return JournalUnavailable(
            f"the state of journal {self.journal_id} was changed by others {CONFLICTS_MAX} times; try again"
        )

    # --- what is committed ---------------------------------------------------------------------------

    def note_committed(self, txid: int | None) -> None:
        """Commits are learnt from writers, from ledgers and from the state; the highest counts."""
        if txid is not None and (self.committed_txid is None or txid > self.committed_txid):
            self.committed_txid = txid

    def note_end(self, end: LedgerEnd) -> None:
        self.note_committed(end.committed_txid)

    # --- checks ----------------------------------------------------------------------------------------

    def refuse_stale(self, epoch: int, promised: int) -> None:
        """Check C2a."""
        if epoch < promised:
            raise StaleEpoch(
                f"IPC's epoch {epoch} is less than the last promised epoch {promised} ; "
                f"journal id: {self.journal_id}"
            )

    def take_number(self, info: RequestInfo) -> None:
        """Checks C2c and C2d: the call's number rises within its epoch, and what is committed does not go back."""
        if info.epoch != self.serial_epoch:  # it may have been promised in another process
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
        """Check C3."""
        if epoch != state.last_writer_epoch:
            raise StaleEpoch(
                f"IPC's epoch {epoch} is not the current writer epoch  {state.last_writer_epoch} ; "
                f"journal id: {self.journal_id}"
            )

    def segment_for(self, request: SendEdits) -> OpenSegment:
        """The open segment, if the batch is the next of it."""
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
    """A sealed segment as a recovery talks of it."""
    assert segment.end_txid is not None
    return SegmentState(segment.start_txid, segment.end_txid, not segment.finalized, segment.writer_epoch)
