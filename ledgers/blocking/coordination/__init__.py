"""What programs agree on beside ledgers and logs, in ordinary code."""
