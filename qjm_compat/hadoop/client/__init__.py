"""Client through which the journal manager uses JournalNodes, stock Hadoop's or ours, as acceptors."""
