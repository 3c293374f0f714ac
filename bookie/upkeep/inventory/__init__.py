"""What this bookie should hold of each ledger, and what it holds."""
