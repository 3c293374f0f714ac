"""The blocking client: it offers the calls of `ledgers.aio`, and the calling thread waits for each result."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, Salvage, WriteHandle
from .cursor import Cursor
from .election import Election, Term
from .log import Log, LogWriter
from .log_set import LogSet

__all__ = [
    "AdvancedWriteHandle",
    "Cursor",
    "Election",
    "LedgerClient",
    "Log",
    "LogSet",
    "LogWriter",
    "ReadHandle",
    "Salvage",
    "Term",
    "WriteHandle",
]
