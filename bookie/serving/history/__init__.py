"""Detects older copies: of a bookie's directory by the metadata, and of the metadata by the bookies."""
