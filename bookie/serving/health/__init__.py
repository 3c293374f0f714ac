"""Checks a bookie's own health."""
