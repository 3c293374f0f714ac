"""The commands `bookledger metadata`."""
