"""The commands `bookledger bookie`."""
