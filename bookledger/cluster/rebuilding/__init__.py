"""Rebuilds lost metadata from the entries that bookies hold and the descriptions in ledgers."""
