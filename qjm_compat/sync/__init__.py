"""Acceptors that lack finalized segments are brought up to date, as JournalNodes' syncer does it."""
