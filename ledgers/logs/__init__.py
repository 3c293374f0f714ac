"""Logs built on ledgers: each log has a name, positions without gaps, and one writer at a time."""
