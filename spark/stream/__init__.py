"""Streaming replay: ledgers as they are closed, segments as they are finalized."""
