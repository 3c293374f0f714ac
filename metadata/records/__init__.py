"""Records kept under the keys: ledgers, bookies, journals; each with the code that reads and changes it."""
