"""Logs over ledgers: a name, positions without gaps, one writer after another."""
