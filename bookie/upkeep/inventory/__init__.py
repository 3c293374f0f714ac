"""Compares what this bookie should hold of each ledger with what it holds."""
