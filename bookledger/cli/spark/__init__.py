"""The commands `bookledger replay` and `bookledger sim`."""
