"""Client for JournalNodes, either stock Hadoop's or ours, as acceptors of the journal manager."""
