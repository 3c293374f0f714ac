"""Hadoop's JournalManager on ledgers. Nothing here yet; see CHANGELOG.md."""
