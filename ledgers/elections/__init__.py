"""Elections: one leader at a time, the next one in the queue after it."""
