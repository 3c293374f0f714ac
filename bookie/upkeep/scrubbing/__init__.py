"""Scrubbing: periodically reads everything on disk to find bit rot, and repairs it."""
