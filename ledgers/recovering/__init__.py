"""Recovering a ledger whose writer is gone, for an application or for a bookie that mends itself."""
