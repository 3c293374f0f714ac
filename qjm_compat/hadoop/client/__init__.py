"""Client for JournalNodes, stock ones or ours, as acceptors of the journal manager."""
