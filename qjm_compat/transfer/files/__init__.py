"""Segments as files, as a NameNode or a JournalNode keeps them."""
