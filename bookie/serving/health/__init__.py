"""What a bookie finds of its own health."""
