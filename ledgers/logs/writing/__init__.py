"""Writing to a log: take-over, consecutive segments, unconfirmed records."""
