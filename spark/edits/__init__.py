"""The data source for a journal's edits."""
