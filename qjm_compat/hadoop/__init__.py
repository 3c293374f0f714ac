"""Acceptors as JournalNodes: Hadoop's IPC and HTTP, served to its NameNodes, and spoken to its JournalNodes."""
