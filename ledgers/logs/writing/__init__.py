"""Writing to a log: take-overs, consecutive segments and unconfirmed records."""
