"""Repair from other replicas: of fragments, entire ledgers and the index; takeover of lost copies."""
