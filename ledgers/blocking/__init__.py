"""The blocking client: the calls of `ledgers.aio`, with the calling thread waiting for the result."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, Salvage, WriteHandle
from .coordination.election import Election, Term
from .log import Log, LogWriter

__all__ = [
    "AdvancedWriteHandle",
    "Election",
    "LedgerClient",
    "Log",
    "LogWriter",
    "ReadHandle",
    "Salvage",
    "Term",
    "WriteHandle",
]
