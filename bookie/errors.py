"""Errors that stop a bookie, or keep it from starting.

BookieError
├── DataDirectoryError    unformatted, foreign, locked, or not the directory of this bookie
├── DirectoryLost         a serving bookie's files are no longer at their paths (rule B1)
├── DamagedLog            damage before valid records: reports file and offset (rule B2)
├── IndexUnusable         the index is damaged or cannot be written; the log contains all data
│   └── IndexDamaged      the index is corrupt: its answers cannot be trusted
├── LogFailed             a write or sync failed: nothing is acknowledged after that (rule B1)
├── DiskIsFull            no space left for the bookie's own files
└── NameTaken             another living bookie is registered under this name (rule M2)
"""

from __future__ import annotations

from metadata.picklable_errors import PicklableError


class BookieError(PicklableError):
    """Base class of errors that the daemon reports in one line before it exits."""


class DataDirectoryError(BookieError):
    """The data directory cannot be used as it is. Nothing in it was changed."""


class NewerFormat(DataDirectoryError):
    """A newer version wrote this file: only that version, or a later one, can use the directory."""

    def __init__(self, file: str, known: int) -> None:
        super().__init__(
            f"{file} was written by a newer version of bookledger (this one knows format version {known}): run that"
        )


class DirectoryLost(BookieError):
    """A file of a running bookie was removed, replaced or mounted over. Acknowledged entries in it may be lost."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was removed, moved or mounted over while the bookie served from it: restore it as it was and "
            "start the bookie, or replace the bookie (`bookledger bookie format --replace`), which then copies its "
            "entries from other bookies that have them. Find out the cause first"
        )
        self.path = path


class DamagedLog(BookieError):
    """The log is corrupt: data that was once on disk cannot be read. The bookie does not start; nothing was changed."""

    def __init__(self, file: str, offset: int, why: str) -> None:
        super().__init__(
            f"{file} is damaged at offset {offset}: {why}. This is not a torn tail: the data was once on disk. "
            "`bookledger bookie check` shows all damage; `bookledger bookie salvage` lets the bookie start "
            "without the damaged bytes, and loses nothing else"
        )
        self.file = file
        self.offset = offset
        self.why = why


class IndexUnusable(BookieError):
    """The index cannot be read or written. The log contains all data, so the index can be rebuilt from it."""


class IndexDamaged(IndexUnusable):
    """The index is corrupt. The bookie answers UNKNOWN for entries missing from the index, never "no such entry" (rule
    R6). Rebuild the index from the log."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the index is damaged ({why}); stop the bookie, and run `bookledger bookie rebuild-index` on its directory"
        )


class LogFailed(BookieError):
    """The log could not be written or synced, or files were removed; the message contains the reason. A failed sync is
    never retried."""


class DiskIsFull(BookieError):
    """The disk has no space for a write. The bookie continues; try again when there is space."""


class NameTaken(BookieError):
    """Another live bookie is registered under this name. Stop it, or give this bookie another name."""
