"""The bookie's rules (fencing, acknowledgement) as a pure state machine: requests and syncs in, log writes and answers
out.

The shell around it writes the records in the order in which the machine returns them, reports them back in the same
order when they are on disk, and delivers answers. The machine keeps these rules:

- R1: a fencing request is answered only when its fence is on disk; a fence needs no prior
  knowledge of the ledger.
- B1: an append is answered OK only when it is on disk.
- A client that writes to a ledger or fences it must have presented the ledger's verifier, which the first such
  request sets; the shell has checked the proof (`wire.credentials`).
- W8: a request for a ledger other than the one held under that id is refused.
- A ledger that is fenced, or whose fence is on its way to disk, accepts only recovery adds.
- B4: a read-only bookie still accepts fences and recovery adds.
- When a fence is answered, every record submitted before it is on disk, because the log is
  written in order; so "no such entry" from a fenced bookie remains true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from metadata.errors import BadRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import NewerNote

from ..index.local_ledger_state import Fence, LocalLedgerState
from ..log.format import NO_LEDGER, BookieLogRecord, RecordKind, new_record
from ..wire.messages import NO_IDENTITY, NO_NOTE, Frame, Status


class Write(NamedTuple):
    """Effect: append this record to the log, and report the ticket back when the record is on disk.

    With `deferred_sync`, also report the ticket when the record is written, unless a sync follows at once. A record
    without a ticket is reported once, when it is written, and causes no sync.
    """

    record: BookieLogRecord
    ticket: object | None
    deferred_sync: bool = False


class Answer(NamedTuple):
    """Effect: answer the request that has this ticket."""

    ticket: object
    status: Status
    detail: str = ""


Effect = Write | Answer


class BookieCore:
    """State machine of fencing, admission and acknowledgement for every ledger of a bookie.

    `state_of` returns the state of a ledger, or a new blank one if the ledger is unknown.
    """

    def __init__(self, state_of: Callable[[int], LocalLedgerState]) -> None:
        self._state_of = state_of
        self.read_only = ""  # why the bookie accepts no new entries, or ""

    def append(self, frame: Frame, ticket: object, sender: str = "") -> list[Effect]:
        """Admits or refuses a frame for this incarnation; `sender` is the client's address."""
        state, verifier = self._state_of(frame.ledger_id), frame.credential.verifier
        if refused := _refused(state, verifier, frame.identity, ticket):
            return [refused]
        if state.fence is not Fence.NONE and not frame.recovery:
            return [Answer(ticket, Status.FENCED)]
        if self.read_only and not frame.recovery:
            return [Answer(ticket, Status.READ_ONLY, self.read_only)]
        try:
            note = _note_in(frame)
        except BadRecord as error:
            return [Answer(ticket, Status.BAD_REQUEST, str(error))]
        if not frame.recovery:
            state.writer_address = sender
        return [Write(_record_of(frame, note), ticket, frame.deferred_sync)]

    def append_note(self, frame: Frame) -> list[Write]:
        """Accepts a note of a ledger that the bookie holds, if it would also admit the ledger's frames. Produces no
        answer."""
        state, verifier = self._state_of(frame.ledger_id), frame.credential.verifier
        is_fenced = state.fence is not Fence.NONE
        if not (state.known or is_fenced) or (is_fenced and not frame.recovery):
            return []
        if _refused(state, verifier, frame.identity, None) or (self.read_only and not frame.recovery):
            return []
        try:
            note = _note_in(frame)
        except BadRecord:
            return []
        return [Write(_record_of(frame, note), None, deferred_sync=True)] if note else []

    def fence(
        self, ledger_id: int, ticket: object, verifier: bytes = b"", identity: bytes = NO_IDENTITY
    ) -> list[Effect]:
        """Fences a ledger; answers the ticket with OK when the fence is on disk."""
        state = self._state_of(ledger_id)
        if refused := _refused(state, verifier, identity, ticket):
            return [refused]
        match state.fence:
            case Fence.DURABLE:
                return [Answer(ticket, Status.OK)]
            case Fence.PENDING:
                state.waiting_for_fence.append(ticket)
                return []
            case Fence.NONE:
                state.fence = Fence.PENDING
                return [
                    Write(
                        BookieLogRecord(RecordKind.FENCE, ledger_id, verifier=verifier, identity=identity),
                        ticket,
                    )
                ]

    def written(self, ticket: object) -> list[Effect]:
        """Answers WRITTEN for a record with deferred sync that is in the log but not yet on disk."""
        return [Answer(ticket, Status.WRITTEN)]

    def on_disk(self, record: BookieLogRecord, ticket: object | None) -> list[Effect]:
        """Applies a durable record and answers its request; called once per record, in log order. A ticket of None
        means that the request was answered before."""
        answers: list[Effect] = [] if ticket is None else [Answer(ticket, Status.OK)]
        if record.ledger_id == NO_LEDGER:
            return answers
        state = self._state_of(record.ledger_id)
        remember(state, record)
        if record.kind is RecordKind.FENCE:
            answers += self._release(state, Status.OK, "")
        return answers

    def refused(self, written: Iterable[tuple[object | None, BookieLogRecord]], detail: str) -> list[Effect]:
        """Answers READ_ONLY for records that were not logged because the disk is full; withdraws a pending fence."""
        answers: list[Effect] = []
        for ticket, record in written:
            if ticket is not None:
                answers.append(Answer(ticket, Status.READ_ONLY, detail))
            if record.kind is RecordKind.FENCE:
                state = self._state_of(record.ledger_id)
                state.fence = Fence.NONE
                answers += self._release(state, Status.READ_ONLY, detail)
        return answers

    def _release(self, state: LocalLedgerState, status: Status, detail: str) -> list[Answer]:
        tickets, state.waiting_for_fence = state.waiting_for_fence, []
        return [Answer(ticket, status, detail) for ticket in tickets]


def _record_of(frame: Frame, note: bytes) -> BookieLogRecord:
    verifier, identity = frame.credential.verifier, frame.identity
    whose = frame.last_add_confirmed, frame.recovery, verifier, b"", identity
    return new_record((RecordKind.ENTRIES, frame.ledger_id, frame.columns, *whose, note))


def _note_in(frame: Frame) -> bytes:
    """Returns the frame's note, or b"" if the note was written by a newer version of this program. Raises BadRecord if
    the note belongs to another ledger."""
    if not frame.note:
        return NO_NOTE
    try:
        fragment_note.check(frame.note, frame.ledger_id, frame.identity, frame.credential.verifier)
    except NewerNote:
        return NO_NOTE
    return frame.note


def _refused(state: LocalLedgerState, verifier: bytes, identity: bytes, ticket: object) -> Answer | None:
    """Checks verifier and identity; the first writer or fencer of a ledger sets both."""
    if state.verifier is not None and not state.admits(verifier):
        return Answer(ticket, Status.UNAUTHORIZED)
    if state.is_another(identity):
        return Answer(ticket, Status.WRONG_IDENTITY, state.identity_mismatch(identity))
    if state.identity is None or state.verifier is None:
        state.learn(verifier, identity)
    return None


def is_of_another(state: LocalLedgerState, record: BookieLogRecord) -> bool:
    """Returns whether the record belongs to another ledger with the same id (rule W8)."""
    if record.kind is not RecordKind.STATE:
        return state.is_another(record.identity)
    theirs = LocalLedgerState.decode(record.ledger_id, record.content).identity
    return theirs is not None and state.is_another(theirs)


def state_record(state: LocalLedgerState) -> BookieLogRecord:
    """Makes a record of a ledger's entire state, without its entries and notes."""
    return BookieLogRecord(RecordKind.STATE, state.ledger_id, content=state.encode())


def remember(state: LocalLedgerState, record: BookieLogRecord) -> bool:
    """Applies a durable record to its ledger's state, in live operation or during replay. Returns whether the
    last-add-confirmed rose."""
    if record.kind is RecordKind.STATE:
        state.absorb(LocalLedgerState.decode(record.ledger_id, record.content))
        return False
    if state.verifier is None:
        state.verifier = record.verifier
    state.identity = record.identity
    if record.kind is RecordKind.FENCE:
        state.fence = Fence.DURABLE
        return False
    columns = record.columns
    if columns is not None and len(columns):
        state.known = True
    return state.note_lac(record.last_add_confirmed)
