"""Garbage collection of deleted ledgers, and compaction of segments."""
