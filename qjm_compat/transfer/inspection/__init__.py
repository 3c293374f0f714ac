"""Inspects a journal's acceptors read-only, through the metadata and the ledgers."""
