"""Writing a ledger: the handle, who waits for which entry, and progress."""
