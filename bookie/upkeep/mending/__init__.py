"""Repair from other replicas: of fragments, whole ledgers and the index; takeover of lost copies."""
