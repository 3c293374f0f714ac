"""Records kept under the keys: ledgers, bookies, journals, logs. Each is defined along with the code that reads and
changes it."""
