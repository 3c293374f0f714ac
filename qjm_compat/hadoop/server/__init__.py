"""A JournalNode: its name, its journals, and the calls that come to its port."""
