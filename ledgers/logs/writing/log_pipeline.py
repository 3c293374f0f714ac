"""Decides the order in which a log's writer ends segments, begins new ones and confirms records: a pure state machine.

The *tail* is the last segment of the log's record: a record is confirmed when the tail's ledger confirms it. The *next*
segment is created ahead of time, and is not yet in the record. It begins at the *cut*; the tail takes the records
before that. Once the cut is reached, the ledger of the next segment takes records, but none of them is confirmed before
the tail's ledger is closed and one compare-and-swap of the log's record has ended the tail and begun the next segment.
A writer that takes the log over recovers the last segment of the record, and therefore never misses a confirmed record.

A tail that fails is recovered, and the records past its end are appended again, to the next segment. Positions never
change: a record's position is the first position of its segment plus its entry id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ...errors import LedgerError

FAILURES_MAX = 5
"""Maximum number of consecutive segments that may fail without confirming anything."""

MANY = 2**63
"""A number larger than the number of records that a log can have."""


@dataclass(frozen=True, slots=True)
class MakeSegment:
    """An instruction to create a ledger for segment `number`, which begins at `first_position`."""

    number: int
    first_position: int


@dataclass(frozen=True, slots=True)
class Submit:
    """An instruction to append the records at these positions to a segment, in order. They are the only records that
    the segment is missing."""

    number: int
    first_position: int
    stop_position: int


@dataclass(frozen=True, slots=True)
class CloseSegment:
    """An instruction to flush and close the segment's ledger."""

    number: int


@dataclass(frozen=True, slots=True)
class RecoverSegment:
    """An instruction to check that no other writer has taken the log over, and then to recover the segment's ledger."""

    number: int


@dataclass(frozen=True, slots=True)
class Join:
    """An instruction to end the tail in the log's record and begin the next segment or, without a next segment, only to
    end the tail."""

    tail: int
    end_position: int
    next: int | None


@dataclass(frozen=True, slots=True)
class Discard:
    """An instruction to abandon a segment that is not in the log's record, and to delete its ledger."""

    number: int


@dataclass(frozen=True, slots=True)
class ConfirmRecords:
    """An instruction to confirm all records before this position."""

    end_position: int


@dataclass(frozen=True, slots=True)
class FinishWriter:
    """An instruction to end the writer, with this error or, if it is None, because the writer was closed."""

    error: LedgerError | None


LogEffect = (
    MakeSegment | Submit | CloseSegment | RecoverSegment | Join | Discard | ConfirmRecords | FinishWriter
)


class Tail(Enum):
    """The state of the tail's ledger."""

    OPEN = auto()
    CLOSING = auto()
    RECOVERING = auto()
    ENDED = auto()


@dataclass(slots=True)
class Slot:
    """A segment of this writer. `end_position`: the position after the records that the segment's ledger has confirmed.
    `failed`: the segment takes no more records."""

    number: int
    first_position: int
    end_position: int
    is_made: bool = True
    failed: bool = False


class LogPipeline:
    """The state machine of one writer. The caller passes it events, and performs the effects it returns, in order."""

    def __init__(self, first_position: int) -> None:
        """Starts with a segment that the writer has begun at `first_position`; it is the tail, and its number is 0."""
        self._tail = Slot(0, first_position, first_position)
        self._state = Tail.OPEN
        self._next: Slot | None = None
        self._number = 0
        self._cut = first_position
        self._is_joining = False
        self._is_closing = False
        self._failures = 0
        self.has_ended = False
        self.next_position = first_position
        self.confirmed_end = first_position

    # --- queries by the shell ------------------------------------------------------------------------

    @property
    def takes(self) -> int | None:
        """The number of the segment that takes records appended now; None while records have to wait."""
        slot = self._tail if self._state is Tail.OPEN else None
        if self._next is not None and not self._is_ahead(self._next):
            slot = self._next
        return slot.number if slot is not None and slot.is_made and not slot.failed else None

    @property
    def room(self) -> int:
        """How many records may be appended before the shell has to call `cut_reached`."""
        slot = self._next
        return slot.first_position - self.next_position if slot is not None and self._is_ahead(slot) else MANY

    @property
    def may_roll(self) -> bool:
        """Whether the tail could be ended now: it holds records, and has not been ended yet."""
        is_free = self._state is Tail.OPEN and (self._next is None or self._is_ahead(self._next))
        is_left = not self._is_closing and not self.has_ended
        return is_free and is_left and self.next_position > self._tail.first_position

    def is_making(self, number: int) -> bool:
        """Returns whether the segment with this number is wanted but has not been created yet."""
        return self._next is not None and self._next.number == number and not self._next.is_made

    def may_go_on_without(self, number: int) -> bool:
        """Returns whether records that the tail could take are waiting for the segment with this number to be
        created."""
        is_waited_for = self.is_making(number) and self.next_position > self._cut
        return is_waited_for and self._state is Tail.OPEN and not self._tail.failed

    # --- events -------------------------------------------------------------------------------------

    def appended(self, records: int) -> int | None:
        """Accepts this number of records; returns the number of the segment to append them to, or None if they have to
        wait."""
        assert not self._is_closing
        assert records <= self.room
        taker = self.takes
        self.next_position += records
        return taker

    def cut_reached(self) -> list[LogEffect]:
        """Handles the cut being reached: records appended from now on belong to the next segment."""
        assert self.next_position == self._cut
        return self._advance()

    def roll(self, ahead: int = 0) -> list[LogEffect]:
        """Ends the tail after `ahead` more records; later records belong to the next segment."""
        return [*self._discarded(), *self._make(self.next_position + ahead)] if self.may_roll else []

    def made(self, number: int) -> list[LogEffect]:
        """Handles the creation of a segment's ledger."""
        slot = self._next
        if slot is None or slot.number != number or self.has_ended:
            return [Discard(number)]
        slot.is_made = True
        return [*self._submit(slot), *self._advance()]

    def not_made(self, number: int, error: LedgerError) -> list[LogEffect]:
        """Handles a failure to create a segment's ledger, or to create it in time. An open tail continues, and can be
        ended later."""
        slot = self._next
        if slot is None or slot.number != number or self.has_ended:
            return []
        if self._state in (Tail.CLOSING, Tail.ENDED):
            return self.fail(error)
        self._next, self._cut = None, self._tail.first_position
        if self._state is Tail.RECOVERING:
            return []
        lacking = Slot(self._tail.number, slot.first_position, slot.first_position)
        return [*self._submit(lacking), *self._advance()]

    def progressed(self, number: int, last_entry: int) -> list[LogEffect]:
        """Handles progress: the ledger of a segment has confirmed its entries through `last_entry`."""
        slot = self._slot(number)
        if slot is None:
            return []
        slot.end_position = max(slot.end_position, slot.first_position + last_entry + 1)
        return self._confirm() if slot is self._tail else []

    def closed(self, number: int) -> list[LogEffect]:
        """Handles the closing of the tail's ledger, which has all entries that were appended to it."""
        if number != self._tail.number or self._state is not Tail.CLOSING:
            return []
        self._state = Tail.ENDED
        return self._advance()

    def failed(self, number: int, error: LedgerError, *, is_final: bool) -> list[LogEffect]:
        """Handles a failure: the ledger of a segment accepts no more entries. `is_final`: a new ledger would fail in
        the same way."""
        slot = self._slot(number)
        if slot is None or slot.failed or self.has_ended:
            return []
        is_over = slot is self._tail and self._state in (Tail.RECOVERING, Tail.ENDED)
        if is_over:
            return []
        slot.failed = True
        self._failures += 1
        if is_final or self._failures > FAILURES_MAX:
            return self.fail(error)
        return self._advance()

    def recovered(self, number: int, end_position: int) -> list[LogEffect]:
        """Handles the recovery of the tail's ledger, which is now closed and ends before this position."""
        if number != self._tail.number or self._state is not Tail.RECOVERING:
            return []
        assert self.confirmed_end <= end_position <= self.next_position
        self._tail.end_position = end_position
        self._state = Tail.ENDED
        return [*self._confirm(), *self._advance()]

    def joined(self) -> list[LogEffect]:
        """Handles the completion of a `Join`: the log's record has been changed as requested."""
        if self.has_ended:
            return []
        assert self._is_joining
        self._is_joining = False
        if self._next is None:
            self.has_ended = True
            return [FinishWriter(None)]
        self._tail, self._next, self._state = self._next, None, Tail.OPEN
        return [*self._confirm(), *self._advance()]

    def close(self) -> list[LogEffect]:
        """Ends the log's last segment. All appended records must have been confirmed."""
        if self._is_closing or self.has_ended:
            return []
        assert self.confirmed_end == self.next_position
        self._is_closing = True
        return self._advance()

    def fail(self, error: LedgerError) -> list[LogEffect]:
        """Ends the writer. Its segments are left as they are, for the next writer that takes the log over."""
        if self.has_ended:
            return []
        self.has_ended = True
        discarded = self._discarded() if not self._is_joining else []
        return [*discarded, FinishWriter(error)]

    # --- steps ----------------------------------------------------------------------------------------

    def _advance(self) -> list[LogEffect]:
        """Performs the next step that the state of the segments allows, and returns its effects."""
        if self.has_ended or self._is_joining:
            return []
        if self._tail.failed and self._state in (Tail.OPEN, Tail.CLOSING):
            self._state = Tail.RECOVERING
            return [RecoverSegment(self._tail.number)]
        effects: list[LogEffect] = []
        if self._must_drop_next():
            effects = self._discarded()
        slot = self._next
        if slot is None:
            return [*effects, *self._advance_alone()]
        if slot.is_made and self._state is Tail.OPEN and not self._is_ahead(slot):
            self._state = Tail.CLOSING
            return [*effects, CloseSegment(self._tail.number)]
        if slot.is_made and self._state is Tail.ENDED:
            return [*effects, *self._join()]
        return effects

    def _advance_alone(self) -> list[LogEffect]:
        match self._state:
            case Tail.OPEN if self._is_closing:
                self._state = Tail.CLOSING
                return [CloseSegment(self._tail.number)]
            case Tail.OPEN if self._cut > self.next_position:  # the next segment has failed
                return self._make(self._cut)
            case Tail.CLOSING if not self._is_closing:  # the next segment has failed
                return self._make(self._cut)
            case Tail.ENDED:
                return self._join() if self._is_closing else self._make(self._tail.end_position)
        return []

    def _must_drop_next(self) -> bool:
        """Returns whether the next segment is useless: it has failed, it does not begin where the tail ended, or the
        writer is closing and will append nothing to it."""
        slot = self._next
        if slot is None:
            return False
        is_misplaced = self._state is Tail.ENDED and slot.first_position != self._tail.end_position
        return slot.failed or is_misplaced or self._is_closing

    def _discarded(self) -> list[LogEffect]:
        slot, self._next = self._next, None
        if slot is None:
            return []
        self._cut = slot.first_position
        return [Discard(slot.number)] if slot.is_made else []

    def _make(self, first_position: int) -> list[LogEffect]:
        self._number += 1
        self._cut = first_position
        self._next = Slot(self._number, first_position, first_position, is_made=False)
        return [MakeSegment(self._number, first_position)]

    def _join(self) -> list[LogEffect]:
        self._is_joining = True
        number = None if self._next is None else self._next.number
        return [Join(self._tail.number, self._tail.end_position, number)]

    def _is_ahead(self, slot: Slot) -> bool:
        """Returns whether the tail is to take more records before this segment begins."""
        return slot.first_position > self.next_position

    def _submit(self, slot: Slot) -> list[LogEffect]:
        if slot.first_position >= self.next_position:
            return []
        return [Submit(slot.number, slot.first_position, self.next_position)]

    def _confirm(self) -> list[LogEffect]:
        if self._tail.end_position <= self.confirmed_end or self.has_ended:
            return []
        self.confirmed_end = self._tail.end_position
        self._failures = 0
        return [ConfirmRecords(self.confirmed_end)]

    def _slot(self, number: int) -> Slot | None:
        if number == self._tail.number:
            return self._tail
        return self._next if self._next is not None and self._next.number == number else None
