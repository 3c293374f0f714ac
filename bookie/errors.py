"""What stops a bookie, or keeps it from starting.

BookieError
├── DataDirectoryError    unformatted, foreign, locked, or not the directory of this bookie
├── DamagedLog            damage before valid records: names file and offset (rule B2)
├── IndexUnusable         the index is damaged or cannot be written; the log has everything
├── LogFailed             a write or sync failed: nothing is acknowledged any more (rule B1)
└── NameTaken             another living bookie is registered under this name (rule M2)
"""

from __future__ import annotations


class BookieError(Exception):
    """Root of what the daemon reports in one line before it exits."""


class DataDirectoryError(BookieError):
    """The data directory cannot be used as it is. Nothing in it was changed."""


class DamagedLog(BookieError):
    """What was once on disk can no longer be read. The bookie does not start; nothing was changed."""

    def __init__(self, file: str, offset: int, why: str) -> None:
        super().__init__(
            f"{file} is damaged at offset {offset}: {why}. Entries after it are intact, so this is no torn "
            "tail. `bookledger bookie check` shows what is damaged. Keep the directory; re-create the bookie on an "
            "empty one so that its ledgers are repaired from the other replicas"
        )
        self.file = file
        self.offset = offset
        self.why = why


class IndexUnusable(BookieError):
    """The index cannot be read or written. The log has everything: the index can be made anew from it."""


class LogFailed(BookieError):
    """The log could not be written or synced, and says why. A failed sync is never retried."""


class NameTaken(BookieError):
    """A living bookie holds this name. Stop it, or give this one another name."""
