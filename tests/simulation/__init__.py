"""Whole clusters under faults, each run decided by one seed: one engine, and layers on it. See README.md."""
