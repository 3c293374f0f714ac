"""Writing a ledger: handles, the pipeline's shell, futures of appends, timeouts."""
