"""Finds every frame in the log, and the state of every ledger."""
