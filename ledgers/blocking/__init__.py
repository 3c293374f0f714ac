"""The blocking client: the calls of `ledgers.aio`, with the calling thread waiting for the result."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, Salvage, WriteHandle

__all__ = ["AdvancedWriteHandle", "LedgerClient", "ReadHandle", "Salvage", "WriteHandle"]
