"""A bookie's end of the data protocol."""
