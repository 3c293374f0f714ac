"""JournalNodes, stock ones or ours, as acceptors of our own journal manager."""
