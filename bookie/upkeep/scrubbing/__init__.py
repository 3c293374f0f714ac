"""Scrubbing: reads everything on disk again, to find bit rot, and repairs it."""
