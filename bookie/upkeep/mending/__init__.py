"""Repair from other replicas: of fragments, of whole ledgers, of the index; takeover of lost copies."""
