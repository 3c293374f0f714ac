"""Imports and exports journals as directories of segment files, and checks their consistency (fsck)."""
