"""Detects older copies: the metadata reveals an older copy of a bookie's directory, and the bookies reveal an older
copy of the metadata."""
