"""A JournalNode: its name lease, its journals, and its RPC server."""
