"""Digests of entries, encryption, and the keys that prove the right to write."""
