"""The blocking client: the calls of `ledgers.aio`, with the calling thread waiting for the result."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, Salvage, WriteHandle
from .log import Log, LogWriter

__all__ = ["AdvancedWriteHandle", "LedgerClient", "Log", "LogWriter", "ReadHandle", "Salvage", "WriteHandle"]
