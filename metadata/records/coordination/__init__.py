"""Agreement between programs beside ledgers and logs: who leads, and the positions of readers."""
