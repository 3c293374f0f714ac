"""Writing a ledger: handles, the shell of the append pipeline, futures of appends, timeouts."""
