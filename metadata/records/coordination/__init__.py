"""What programs agree on beside ledgers and logs: who leads, and how far readers have come."""
