"""Errors of logs, in addition to those of `ledgers.errors`.

LedgerError
├── LogIncomplete            the log is a fork that is still being made, or whose maker died
├── LogOfSet                 the log can be changed only through its set
├── LogRestored              another log now has this log's name and its earlier records
├── NoSuchPosition           the position is beyond the end, or below 0
├── NoSuchLogSet             there is no set of this name
├── NoSuchCursor             the log has no cursor of this name
├── CursorMoved              a seek has moved the cursor: records read before the seek cannot be committed
├── CursorTakenOver          another consumer holds the cursor
├── CursorClosed             the cursor was closed and accepts no more commits
├── OutOfOrderSequence       an earlier append of the producer was not accepted, so nothing was appended
├── SequenceTooOld           the producer has a later record in the log; nothing was appended
└── ProducerForgotten        the log no longer has the producer's state; nothing was appended
"""

from __future__ import annotations

from metadata.picklable_errors import NotFound, OutOfRange, TakenOver

from ..errors import LedgerError


class LogIncomplete(LedgerError):
    """The log is an incomplete fork. If no client is currently making the fork, delete it and fork again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"log {name!r} is an incomplete fork: if no client is currently making it, delete it and fork again"
        )
        self.name = name


class LogOfSet(LedgerError):
    """The log belongs to a set, whose logs must all have the same settings. Nothing was changed: change the set
    instead."""

    def __init__(self, name: str, log_set: str, instead: str) -> None:
        super().__init__(f"log {name!r} belongs to set {log_set!r}: {instead}")
        self.name, self.log_set = name, log_set


class LogRestored(LedgerError):
    """The log was restored to an earlier state. This is the former log; the restored log now has its name.

    Open the restored log by that name. The records of the former log can still be read.
    """

    def __init__(self, name: str, now: str) -> None:
        super().__init__(
            f"log {now!r} was restored to an earlier state, and this is the former log, {name!r}, which ends here: "
            f"open {now!r} again"
        )
        self.name, self.now = name, now


class NoSuchPosition(OutOfRange, LedgerError, ValueError):
    """The position is beyond the end of the log, or below 0. Nothing was changed. `end` is the known end of the log."""

    def __init__(self, name: str, position: int, end: int) -> None:
        beyond = f"log {name!r} ends before position {end}, so position {position} is beyond its end"
        super().__init__(
            beyond if position >= 0 else f"positions begin at 0: log {name!r} has no position {position}"
        )
        self.name, self.position, self.end = name, position, end


class NoSuchLogSet(NotFound, LedgerError):
    """There is no set of logs with this name. To create it, specify how many logs it is to have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no set of logs {name!r}: specify a number of logs to create it")
        self.name = name


class NoSuchCursor(NotFound, LedgerError):
    """The log has no cursor of this name: it was never created, or it was deleted."""

    def __init__(self, log: str, name: str) -> None:
        super().__init__(f"log {log!r} has no cursor {name!r}")
        self.log, self.name = log, name


class CursorMoved(LedgerError):
    """A seek has moved the cursor, so nothing was committed. Call `refresh` on the cursor and continue reading from
    `position`."""

    def __init__(self, log: str, name: str, position: int) -> None:
        super().__init__(
            f"cursor {name!r} of log {log!r} was moved to position {position}: continue reading from there"
        )
        self.log, self.name, self.position = log, name, position


class CursorTakenOver(TakenOver, LedgerError):
    """Another consumer has taken the cursor over, so nothing was committed. That consumer will process the same
    records again."""

    def __init__(self, log: str, name: str, by: str) -> None:
        super().__init__(
            f"another consumer ({by or 'unnamed'}) has taken over cursor {name!r} of log {log!r}"
        )
        self.log, self.name, self.by = log, name, by


class CursorClosed(LedgerError):
    """The cursor or its client was closed. Earlier commits are kept; `Log.cursor` opens the cursor again."""

    def __init__(self, log: str, name: str) -> None:
        super().__init__(f"cursor {name!r} of log {log!r} was closed")
        self.log, self.name = log, name


class OutOfOrderSequence(LedgerError):
    """An earlier append of the producer failed before it was accepted, for example because it was cancelled while it
    waited. Nothing was appended, because the earlier record could not be appended after this one. Append the
    failed records and this one again, in order; the writer remains usable."""

    def __init__(self, producer: str, sequence: int) -> None:
        super().__init__(
            f"sequence {sequence} of producer {producer!r} was not appended, because an earlier one failed "
            "before it was accepted: append them again, in order"
        )
        self.producer, self.sequence = producer, sequence


class SequenceTooOld(LedgerError):
    """The log has a record with a later sequence from this producer, but remembers no record with this sequence;
    nothing was appended.

    Either the producer skipped this sequence, or it appended the record so long ago that the log no longer remembers
    the record individually. The record of `last_sequence` is at `last_position`.
    """

    def __init__(self, producer: str, sequence: int, last_sequence: int, last_position: int) -> None:
        super().__init__(
            f"sequence {sequence} of producer {producer!r} is older than its last one, {last_sequence} at position "
            f"{last_position}, and the log remembers no record of it: it was appended long ago, or never"
        )
        self.producer, self.sequence = producer, sequence
        self.last_sequence, self.last_position = last_sequence, last_position


class ProducerForgotten(LedgerError):
    """The log has forgotten the records of this producer. Nothing was appended, because the record may already be in
    the log.

    If it matters whether the record is in the log, read the log; then continue under another producer name.
    """

    def __init__(self, producer: str) -> None:
        super().__init__(
            f"the log has forgotten producer {producer!r}, which has not appended for a long time, or was displaced by "
            "other producers: only reading the log shows whether it has this record; continue under another name"
        )
        self.producer = producer
