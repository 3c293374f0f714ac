"""Logs over ledgers: a name, positions without holes, one writer after another."""
