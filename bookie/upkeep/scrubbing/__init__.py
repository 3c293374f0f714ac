"""Scrubbing: reads everything on disk periodically to find bit rot, and repairs it."""
