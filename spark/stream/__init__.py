"""Replay as a stream: ledgers as they close, segments as they are finalized."""
