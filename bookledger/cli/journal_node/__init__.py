"""A JournalNode with its HTTP pages: in its own process (`journal serve`), or in that of a bookie (`bookie run`)."""
