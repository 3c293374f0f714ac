"""Recovers or deletes a ledger: for an application, or for a bookie that repairs itself."""
