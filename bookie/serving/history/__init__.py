"""Detects older copies: the metadata is used to detect an older copy of a bookie's directory, and the bookies detect an
older copy of the metadata."""
