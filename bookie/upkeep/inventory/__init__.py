"""Compares the entries that this bookie should hold of each ledger with those that it holds."""
