"""Older copies: of a bookie's directory, noticed by the metadata, and of the metadata, noticed by the bookies."""
