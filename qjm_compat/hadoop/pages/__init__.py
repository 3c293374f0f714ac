"""A JournalNode's HTTP pages."""
