"""The journal manager's proposer, channels and streams: Hadoop's QuorumJournalManager over any number of acceptors."""
