"""Files as the bookie needs them, and how much space is left."""
