"""Errors of producers.

LedgerError
├── OutOfOrderSequence       an earlier append of the producer was not accepted, so nothing was appended
├── SequenceTooOld           the producer has a later record in the log; nothing was appended
└── ProducerForgotten        the log no longer has the producer's state; nothing was appended
"""

from __future__ import annotations

from ...errors import LedgerError


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
    """The producer has a record of a later sequence in the log, but the log remembers no record of this sequence;
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
