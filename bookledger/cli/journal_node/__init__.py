"""A JournalNode with its HTTP pages: in a process of its own (`journal serve`), or beside a bookie (`bookie run`)."""
