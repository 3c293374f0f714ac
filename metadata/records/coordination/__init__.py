"""What programs agree on beside ledgers and logs: who leads."""
