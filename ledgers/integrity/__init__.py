"""Digests of entries, and the keys that prove who may write."""
