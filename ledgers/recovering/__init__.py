"""Recovers or deletes a ledger, either for an application or for a bookie that repairs itself."""
