"""Digests of entries, encryption, and the keys that prove who may write."""
