"""Errors of logs, in addition to those of `ledgers.errors`.

LedgerError
├── LogIncomplete            the log is a fork that is still being made, or whose maker died
├── LogOfSet                 the log can be changed only through its set
├── LogRestored              another log now has this log's name and its earlier records
└── NoSuchPosition           the position is beyond the end, or below 0
"""

from __future__ import annotations

from metadata.picklable_errors import OutOfRange

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
