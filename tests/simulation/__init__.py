"""Whole clusters in one thread, every message, disk operation and crash drawn from one seed."""
