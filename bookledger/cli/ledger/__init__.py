"""The commands `bookledger ledger`."""
