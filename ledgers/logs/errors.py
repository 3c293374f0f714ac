"""Errors of logs, in addition to those of `ledgers.errors`.

LedgerError
├── LogIncomplete            a fork is being made, or its maker died
├── LogOfSet                 the log can be changed only with its set
├── LogRestored              another log has its name and its earlier records
└── NoSuchPosition           the position is beyond the end, or below 0
"""

from __future__ import annotations

from metadata.picklable_errors import OutOfRange

from ..errors import LedgerError


class LogIncomplete(LedgerError):
    """The log is an incomplete fork. If no client is making the fork at the moment, delete it and fork again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"log {name!r} is a fork that is not complete: if no client is making it now, delete it, and fork again"
        )
        self.name = name


class LogOfSet(LedgerError):
    """The log belongs to a set, which keeps all its logs alike. Nothing was changed: change the set instead."""

    def __init__(self, name: str, log_set: str, instead: str) -> None:
        super().__init__(f"log {name!r} is one of set {log_set!r}: {instead}")
        self.name, self.log_set = name, log_set


class LogRestored(LedgerError):
    """The log was restored to an earlier state. This is the former log: the restored log now has its name.

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
        super().__init__(beyond if position >= 0 else f"positions begin at 0: log {name!r} has no {position}")
        self.name, self.position, self.end = name, position, end
