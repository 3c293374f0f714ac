"""The client for ordinary code: the calls of `ledgers.aio`, waited for by the calling thread."""

from .client import AdvancedWriteHandle, LedgerClient, ReadHandle, WriteHandle

__all__ = ["AdvancedWriteHandle", "LedgerClient", "ReadHandle", "WriteHandle"]
