"""Records kept under the keys: ledgers, bookies, journals, logs. Each has the code that reads and changes it."""
