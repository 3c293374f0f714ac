"""Brings acceptors that lack finalized segments up to date, as JournalNodes' syncer does."""
