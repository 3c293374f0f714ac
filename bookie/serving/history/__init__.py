"""Detects older copies: the metadata detects those of a bookie's directory, and the bookies those of the metadata."""
