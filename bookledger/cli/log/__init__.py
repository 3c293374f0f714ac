"""The commands `bookledger log`."""
