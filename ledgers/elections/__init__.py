"""Elections: one leader at a time, succeeded by the next candidate in the queue."""
