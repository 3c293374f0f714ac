"""Moves closed ledgers between bookies and object stores."""
