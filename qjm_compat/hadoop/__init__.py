"""Hadoop compatibility: acceptors served as JournalNodes over IPC and HTTP, and a client for JournalNodes."""
