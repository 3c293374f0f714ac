"""The command `bookledger demo`."""
