"""Replay of closed ledgers through PySpark. Nothing here yet; see CHANGELOG.md."""
