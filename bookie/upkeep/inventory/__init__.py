"""Compares the entries of each ledger that this bookie should hold with those that it does hold."""
