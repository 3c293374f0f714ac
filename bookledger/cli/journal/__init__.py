"""The commands `bookledger journal`."""
