"""Read-only inspection of a journal's acceptors, through metadata and ledgers."""
