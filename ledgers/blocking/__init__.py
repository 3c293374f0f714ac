"""The blocking client: the calls of `ledgers.aio`, with the calling thread waiting for the result."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, Salvage, WriteHandle
from .coordination.cursor import Cursor
from .coordination.election import Election, Term
from .log import Log, LogWriter
from .sets.log_set import LogSet

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
