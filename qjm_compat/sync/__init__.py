"""Brings acceptors that lack finalized segments up to date, like the syncer of Hadoop's JournalNodes."""
