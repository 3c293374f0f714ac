"""The proposer: what Hadoop's QuorumJournalManager does, over any number of acceptors."""
