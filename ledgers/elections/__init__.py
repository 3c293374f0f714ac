"""Elections: one leader at a time, followed by the next candidate in the queue."""
