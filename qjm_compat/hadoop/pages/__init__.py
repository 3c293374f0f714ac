"""What a JournalNode answers over HTTP."""
