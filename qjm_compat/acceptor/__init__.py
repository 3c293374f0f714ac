"""The acceptor: Hadoop's JournalNode, with ledgers as its storage."""
