"""Records that coordinate programs, other than those of ledgers and logs: leaders, and the positions of readers."""
