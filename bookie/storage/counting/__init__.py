"""What a bookie counts and times while it works."""
