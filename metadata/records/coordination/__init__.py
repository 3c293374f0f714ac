"""Coordination between programs, apart from ledgers and logs: leaders, and the positions of readers."""
