"""The acceptor: what a JournalNode promises, with ledgers for its disk."""
