"""Records kept under the keys: ledgers, bookies, journals, logs; each with the code that reads and changes it."""
