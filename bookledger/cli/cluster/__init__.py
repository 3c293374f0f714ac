"""The commands `bookledger cluster`."""
