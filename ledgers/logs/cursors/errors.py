"""Errors of cursors.

LedgerError
├── NoSuchCursor             the log has no cursor of this name
├── CursorMoved              a seek has moved the cursor: records read before the seek cannot be committed
├── CursorTakenOver          another consumer holds the cursor
└── CursorClosed             the cursor was closed and accepts no more commits
"""

from __future__ import annotations

from metadata.picklable_errors import NotFound, TakenOver

from ...errors import LedgerError


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
