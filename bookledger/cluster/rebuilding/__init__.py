"""Rebuilds lost metadata from the entries that bookies hold and from the descriptions stored in ledgers."""
