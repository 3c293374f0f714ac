"""A journal's edits as a table."""
